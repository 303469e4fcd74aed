// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/bert.h"

#include <algorithm>
#include <array>
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

// Where the lines begin, but for short ones, which have nothing to tell.
std::vector<int64_t> line_starts(const std::string& text, const std::string& path) {
  constexpr std::size_t kShort = 8;
  std::vector<int64_t> starts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin >= kShort) starts.push_back(static_cast<int64_t>(begin));
    begin = end + 1;
  }
  if (!starts.empty()) return starts;
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

Batch Bert::masked_lines(const std::string& text, const std::vector<int64_t>& starts,
                         TextDraws draws) const {
  std::vector<int64_t> words, targets;
  for (const int64_t start : starts) {
    const auto begin = static_cast<std::size_t>(start);
    const std::string line =
        text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
    bool any = false;
    for (int64_t i = 0; i < context_; ++i) {
      const bool ended = i >= static_cast<int64_t>(line.size());
      const int64_t byte =
          ended ? kPadding : static_cast<unsigned char>(line[static_cast<std::size_t>(i)]);
      const bool last = ended ? false : i + 1 == std::min<int64_t>(context_, line.size());
      // A line without any would have no loss.
      const bool chosen = !ended && (draws.share() < 0.15 || (last && !any));
      any = any || chosen;
      const double what = draws.share();
      const int64_t instead = what < 0.8 ? kMask : what < 0.9 ? draws.below(kBytes) : byte;
      words.push_back(chosen ? instead : byte);
      targets.push_back(chosen ? byte : kNoTarget);
    }
  }
  const std::array<int64_t, 2> sizes = {static_cast<int64_t>(starts.size()), context_};
  return {torch::tensor(words).view(sizes).to(device()),
          torch::tensor(targets).view(sizes).to(device())};
}

Batch Bert::batch(int64_t step) {
  TextDraws draws(step_seed(step));
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < batch_; ++i) {
    starts.push_back(training_lines_[draws.below(static_cast<int64_t>(training_lines_.size()))]);
  }
  return masked_lines(text_.training, starts, draws);
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
  const auto last = static_cast<int64_t>(validation_lines_.size()) - 1;
  const std::vector<int64_t> which = evenly_spaced(last, kLines);
  double right = 0, all = 0;
  for (std::size_t i = 0; i < which.size(); i += static_cast<std::size_t>(batch_)) {
    std::vector<int64_t> starts;
    for (std::size_t k = i; k < std::min(which.size(), i + static_cast<std::size_t>(batch_)); ++k) {
      starts.push_back(validation_lines_[static_cast<std::size_t>(which[k])]);
    }
    const Batch batch = masked_lines(text_.validation, starts, TextDraws(i));
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
