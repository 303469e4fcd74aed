// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/gpt.h"

#include <algorithm>
#include <utility>

#include "workloads/evaluation.h"
#include "workloads/schedule.h"
#include "workloads/transformer.h"

namespace reprise::workloads {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kBytes = 256;

}  // namespace

class GptModel final : public nn::Module {
 public:
  GptModel(const TransformerSizes& sizes, int64_t context)
      : tokens_(register_module("tokens", nn::Embedding(kBytes, sizes.width))),
        positions_(register_module("positions", nn::Embedding(context, sizes.width))),
        blocks_(register_module("layers", std::make_shared<TransformerStack>(sizes))),
        norm_(register_module("norm", layer_norm(sizes.width))) {
    const torch::NoGradGuard no_grad;  // as GPT-2: the head is the embedding, so keep it small
    tokens_->weight.normal_(0, 0.02);
    positions_->weight.normal_(0, 0.02);
  }

  Tensor forward(const Strategy& strategy, const Tensor& bytes) {
    const Tensor at = torch::arange(bytes.size(1), bytes.options());
    const Tensor x = blocks_->forward(strategy, tokens_(bytes) + positions_(at));
    return norm_(x).matmul(tokens_->weight.t());
  }

  const std::vector<Layer>& layers() const { return blocks_->layers(); }

 private:
  nn::Embedding tokens_, positions_;
  std::shared_ptr<TransformerStack> blocks_;
  nn::LayerNorm norm_;
};

Gpt::Gpt(const WorkloadOptions& options)
    : Workload("gpt", options),
      batch_(options.batch.value_or(8)),
      context_(options.context.value_or(128)),
      schedule_(options.schedule.value_or(kScheduleSteps)),
      text_(load_text(options.text, context_ + 1)),
      model_(std::make_shared<GptModel>(
          TransformerSizes{options.layers.value_or(4), options.width.value_or(256),
                           options.heads.value_or(4), options.dropout.value_or(0.1),
                           NormPlace::first},
          context_)) {
  model_->to(options.device);
}

Gpt::~Gpt() = default;

nn::Module& Gpt::module() { return *model_; }

const std::vector<Layer>& Gpt::layers() const { return model_->layers(); }

Batch Gpt::batch(int64_t step) {
  TextDraws draws(step_seed(step));
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < batch_; ++i) {
    starts.push_back(draws.below(static_cast<int64_t>(text_.training.size()) - context_));
  }
  return windows(text_.training, starts);
}

Batch Gpt::windows(const std::string& text, const std::vector<int64_t>& starts) const {
  const Tensor bytes = text_windows(text, starts, context_ + 1).to(device());
  return {bytes.slice(1, 0, context_).contiguous(), bytes.slice(1, 1).contiguous()};
}

ForwardResult Gpt::forward(const Strategy& strategy, const Batch& batch) {
  const Tensor logits = model_->forward(strategy, batch.input);
  const Tensor loss =
      at::cross_entropy_loss(logits.reshape({-1, kBytes}), batch.target.reshape({-1}));
  return {loss, logits};
}

std::optional<Quality> Gpt::quality() {
  constexpr int64_t kWindows = 64;  // evenly spaced over the whole part
  const Evaluation evaluation(*model_);
  const int64_t last = static_cast<int64_t>(text_.validation.size()) - context_ - 1;
  const std::vector<int64_t> starts = evenly_spaced(last, kWindows);
  double sum = 0;
  for (std::size_t i = 0; i < starts.size(); i += static_cast<std::size_t>(batch_)) {
    const std::size_t end = std::min(starts.size(), i + static_cast<std::size_t>(batch_));
    const Batch batch = windows(text_.validation, {starts.begin() + i, starts.begin() + end});
    const Tensor loss = run(parse_strategy("plain"), batch).loss;
    sum += loss.item<double>() * static_cast<double>(end - i);
  }
  return Quality{"validation loss", sum / kWindows, "nats/byte"};
}

std::string Gpt::sample() {
  constexpr int64_t kLength = 240;
  constexpr double kTemperature = 0.8;
  const Evaluation evaluation(*model_);
  at::Generator generator = at::globalContext().defaultGenerator(torch::kCPU).clone();
  generator.set_current_seed(step_seed(0));
  const int64_t given = std::min<int64_t>(context_, 32);
  Tensor bytes = text_windows(text_.validation, {0}, given).view({-1});
  for (int64_t i = 0; i < kLength; ++i) {
    const Tensor seen = bytes.slice(0, std::max<int64_t>(0, bytes.numel() - context_));
    const Tensor logits = model_->forward(parse_strategy("plain"), seen.unsqueeze(0).to(device()));
    const Tensor chances =
        torch::softmax(logits.select(1, -1).to(torch::kCPU, torch::kFloat) / kTemperature, -1);
    bytes = torch::cat({bytes, torch::multinomial(chances, 1, false, generator).view({1})});
  }
  const Tensor text = bytes.to(torch::kByte).contiguous();
  return {static_cast<const char*>(text.const_data_ptr()), static_cast<std::size_t>(text.numel())};
}

std::unique_ptr<torch::optim::Optimizer> Gpt::make_optimizer() {
  return std::make_unique<torch::optim::AdamW>(
      model_->parameters(),
      torch::optim::AdamWOptions(options().learning_rate.value_or(1e-3)).weight_decay(0.1));
}

double Gpt::learning_rate_factor(int64_t step) const { return cosine_with_warmup(step, schedule_); }

}  // namespace reprise::workloads
