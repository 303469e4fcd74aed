// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/bert.h"

#include <utility>

#include <reprise/error.h>

#include "workloads/evaluation.h"
#include "workloads/schedule.h"
#include "workloads/transformer.h"

namespace reprise::workloads {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kBytes = 256;
constexpr int64_t kPadding = 256;  // the two words that are no bytes
constexpr int64_t kMask = 257;
constexpr int64_t kWords = 258;
constexpr int64_t kNoTarget = -100;  // what cross entropy leaves out

// The places behind each line's end, the text's own first line included.
Tensor line_starts(const Tensor& text, const std::string& path) {
  const Tensor ends = text.eq('\n').nonzero().view({-1});
  const Tensor starts = torch::cat({torch::zeros({1}, torch::kLong), ends + 1});
  const Tensor next = torch::cat({starts.slice(0, 1), torch::full({1}, text.numel() + 1)});
  const Tensor filled = starts.index({(next - starts) > 8});  // short lines have nothing to tell
  if (filled.numel() > 0) return filled;
  throw Error("'" + path + "': has no lines of 8 bytes or more",
              "give a text that is broken into lines with --text FILE");
}

}  // namespace

class BertModel final : public nn::Module {
 public:
  BertModel(const TransformerSizes& sizes, int64_t context)
      : words_(register_module("words", nn::Embedding(kWords, sizes.width))),
        positions_(register_module("positions", nn::Embedding(context, sizes.width))),
        norm_(register_module("norm", layer_norm(sizes.width))),
        dropout_(register_module("dropout", nn::Dropout(sizes.dropout))),
        blocks_(register_module("layers", std::make_shared<TransformerStack>(sizes))),
        head_(register_module("head", nn::Linear(sizes.width, sizes.width))),
        head_norm_(register_module("head_norm", layer_norm(sizes.width))),
        bias_(register_parameter("bias", torch::zeros({kWords}))) {
    const torch::NoGradGuard no_grad;
    words_->weight.normal_(0, 0.02);
    positions_->weight.normal_(0, 0.02);
  }

  Tensor forward(const Strategy& strategy, const Tensor& words) {
    const Tensor at = torch::arange(words.size(1), words.options());
    const Tensor seen = words.ne(kPadding).unsqueeze(1).unsqueeze(1);
    const Tensor embedded = dropout_(norm_(words_(words) + positions_(at)));
    const Tensor x = blocks_->forward(strategy, embedded, seen);
    return head_norm_(at::gelu(head_(x))).matmul(words_->weight.t()) + bias_;
  }

  const std::vector<Layer>& layers() const { return blocks_->layers(); }

 private:
  nn::Embedding words_, positions_;
  nn::LayerNorm norm_;
  nn::Dropout dropout_;
  std::shared_ptr<TransformerStack> blocks_;
  nn::Linear head_;
  nn::LayerNorm head_norm_;
  Tensor bias_;
};

Bert::Bert(const WorkloadOptions& options)
    : Workload("bert", options),
      batch_(options.batch.value_or(16)),
      context_(options.context.value_or(128)),
      schedule_(options.schedule.value_or(kScheduleSteps)),
      text_(load_text(options.text, 16)),
      training_lines_(line_starts(text_.training, text_.path)),
      validation_lines_(line_starts(text_.validation, text_.path)),
      model_(std::make_shared<BertModel>(
          TransformerSizes{options.layers.value_or(4), options.width.value_or(256),
                           options.heads.value_or(4), options.dropout.value_or(0.1),
                           NormPlace::last},
          context_)) {
  model_->to(options.device);
}

Bert::~Bert() = default;

nn::Module& Bert::module() { return *model_; }

const std::vector<Layer>& Bert::layers() const { return model_->layers(); }

Batch Bert::masked_lines(const Tensor& text, const Tensor& starts, uint64_t seed) const {
  at::Generator generator = at::globalContext().defaultGenerator(torch::kCPU).clone();
  generator.set_current_seed(seed);
  const Tensor places = starts.unsqueeze(1) + torch::arange(context_);
  const Tensor bytes = text.index({places.clamp_max(text.numel() - 1)}).to(torch::kLong);
  const Tensor ended = bytes.eq('\n').logical_or(places.ge(text.numel())).cumsum(1).gt(0);
  const Tensor chosen =
      torch::rand(bytes.sizes(), generator).lt(0.15).logical_and(ended.logical_not());
  // A line without any would have no loss.
  chosen.select(1, 0).logical_or_(chosen.any(1).logical_not());
  const Tensor what = torch::rand(bytes.sizes(), generator);
  const Tensor any = torch::randint(kBytes, bytes.sizes(), generator, torch::kLong);
  const Tensor instead = torch::where(what.lt(0.8), kMask, torch::where(what.lt(0.9), any, bytes));
  const Tensor words = torch::where(chosen, instead, bytes).masked_fill(ended, kPadding);
  const Tensor target = bytes.masked_fill(chosen.logical_not(), kNoTarget);
  return {words.to(device()), target.to(device())};
}

Batch Bert::batch(int64_t step) {
  at::Generator generator = at::globalContext().defaultGenerator(torch::kCPU).clone();
  generator.set_current_seed(step_seed(step));
  const Tensor which = torch::randint(training_lines_.numel(), {batch_}, generator, torch::kLong);
  return masked_lines(text_.training, training_lines_.index({which}), step_seed(step) ^ 1U);
}

double Bert::loss_weight(const Batch& batch) const {
  return batch.target.ne(kNoTarget).sum().item<double>();
}

ForwardResult Bert::forward(const Strategy& strategy, const Batch& batch) {
  const Tensor logits = model_->forward(strategy, batch.input);
  return {at::cross_entropy_loss(logits.view({-1, kWords}), batch.target.reshape({-1})), logits};
}

std::optional<Quality> Bert::quality() {
  constexpr int64_t kLines = 128;  // evenly spaced over the whole part
  const Evaluation evaluation(*model_);
  const auto last = static_cast<double>(validation_lines_.numel() - 1);
  const Tensor which = torch::linspace(0, last, kLines, torch::kFloat64).to(torch::kLong);
  double right = 0, all = 0;
  for (const Tensor& some : which.split(batch_)) {
    const Batch batch = masked_lines(text_.validation, validation_lines_.index({some}), 0);
    const Tensor logits = run(parse_strategy("plain"), batch).output;
    right += logits.argmax(-1).eq(batch.target).sum().item<double>();
    all += loss_weight(batch);
  }
  return Quality{"masked bytes told right", right / all, "%"};
}

std::unique_ptr<torch::optim::Optimizer> Bert::make_optimizer() {
  return std::make_unique<torch::optim::AdamW>(
      model_->parameters(),
      torch::optim::AdamWOptions(options().learning_rate.value_or(1e-3)).weight_decay(0.01));
}

double Bert::learning_rate_factor(int64_t step) const {
  return cosine_with_warmup(step, schedule_);
}

}  // namespace reprise::workloads
