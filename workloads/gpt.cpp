// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/gpt.h"

#include <utility>

#include <reprise/error.h>

namespace reprise::workloads {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kBytes = 256;

nn::LayerNorm layer_norm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

class Attention final : public nn::Module {
 public:
  Attention(int64_t width, int64_t heads, double dropout)
      : heads_(heads),
        norm_(register_module("norm", layer_norm(width))),
        in_(register_module("in", nn::Linear(width, 3 * width))),
        out_(register_module("out", nn::Linear(width, width))),
        dropout_(register_module("dropout", nn::Dropout(dropout))) {}

  Tensor forward(const Tensor& x) {
    const int64_t batch = x.size(0), context = x.size(1), width = x.size(2);
    const auto qkv = in_(norm_(x))
                         .view({batch, context, 3, heads_, width / heads_})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
    const Tensor mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0,
                                                          /*is_causal=*/true);
    return x + dropout_(out_(mixed.transpose(1, 2).reshape({batch, context, width})));
  }

 private:
  int64_t heads_;
  nn::LayerNorm norm_;
  nn::Linear in_, out_;
  nn::Dropout dropout_;
};

class FeedForward final : public nn::Module {
 public:
  FeedForward(int64_t width, double dropout)
      : norm_(register_module("norm", layer_norm(width))),
        up_(register_module("up", nn::Linear(width, 4 * width))),
        down_(register_module("down", nn::Linear(4 * width, width))),
        dropout_(register_module("dropout", nn::Dropout(dropout))) {}

  Tensor forward(const Tensor& x) { return x + dropout_(down_(at::gelu(up_(norm_(x))))); }

 private:
  nn::LayerNorm norm_;
  nn::Linear up_, down_;
  nn::Dropout dropout_;
};

}  // namespace

class GptModel final : public nn::Module {
 public:
  GptModel(int64_t layers, int64_t width, int64_t heads, int64_t context, double dropout)
      : tokens_(register_module("tokens", nn::Embedding(kBytes, width))),
        positions_(register_module("positions", nn::Embedding(context, width))),
        norm_(register_module("norm", layer_norm(width))) {
    {
      const torch::NoGradGuard no_grad;  // as GPT-2: the head is the embedding, so keep it small
      tokens_->weight.normal_(0, 0.02);
      positions_->weight.normal_(0, 0.02);
    }
    for (int64_t i = 0; i < layers; ++i) {
      const std::string name = "layers." + std::to_string(i);
      const auto attention = std::make_shared<Attention>(width, heads, dropout);
      const auto ffn = std::make_shared<FeedForward>(width, dropout);
      register_module("attention" + std::to_string(i), attention);
      register_module("ffn" + std::to_string(i), ffn);
      layers_.push_back(
          {{"attention", [attention](const Tensor& x) { return attention->forward(x); }},
           {"ffn", [ffn](const Tensor& x) { return ffn->forward(x); }}});
    }
  }

  Tensor embed(const Tensor& bytes) {
    const Tensor at = torch::arange(bytes.size(1), bytes.options());
    return tokens_(bytes) + positions_(at);
  }
  Tensor head(const Tensor& x) { return norm_(x).matmul(tokens_->weight.t()); }
  const std::vector<std::vector<LayerPart>>& layers() const { return layers_; }

 private:
  nn::Embedding tokens_, positions_;
  nn::LayerNorm norm_;
  std::vector<std::vector<LayerPart>> layers_;
};

Gpt::Gpt(const WorkloadOptions& options)
    : Workload("gpt", options),
      batch_(options.batch.value_or(8)),
      context_(options.context.value_or(128)),
      strategy_(parse_strategy("plain")) {
  const int64_t width = options.width.value_or(256);
  const int64_t heads = options.heads.value_or(4);
  if (width % heads != 0) {
    throw UsageError("--width " + std::to_string(width) + " is not a multiple of --heads " +
                         std::to_string(heads),
                     "every head takes an equal part of the width");
  }
  model_ = std::make_shared<GptModel>(options.layers.value_or(4), width, heads, context_,
                                      options.dropout.value_or(0.1));
  model_->to(options.device);
  for (const auto& parts : model_->layers()) {
    const auto layer = static_cast<int64_t>(layers_.size());
    layers_.emplace_back(
        [this, &parts, layer](const Tensor& x) { return run_parts(strategy_, parts, layer, x); });
  }
}

Gpt::~Gpt() = default;

torch::nn::Module& Gpt::module() { return *model_; }

// Drawn on the CPU, so that every device gets the same numbers.
Batch Gpt::batch(int64_t step) {
  at::Generator generator = at::globalContext().defaultGenerator(torch::kCPU).clone();
  generator.set_current_seed(step_seed(step));
  const Tensor bytes =
      torch::randint(kBytes, {batch_, context_ + 1}, generator, torch::kLong).to(device());
  return {bytes.slice(1, 0, context_).contiguous(), bytes.slice(1, 1).contiguous()};
}

ForwardResult Gpt::forward(const Strategy& strategy, const Batch& batch) {
  strategy_ = strategy;
  const Tensor x = run_layers(strategy, layers_, blocks(), model_->embed(batch.input));
  const Tensor logits = model_->head(x);
  const Tensor loss = at::cross_entropy_loss(logits.view({-1, kBytes}), batch.target.view({-1}));
  return {loss, logits};
}

std::unique_ptr<torch::optim::Optimizer> Gpt::make_optimizer() {
  return std::make_unique<torch::optim::AdamW>(
      model_->parameters(),
      torch::optim::AdamWOptions(options().learning_rate.value_or(1e-3)).weight_decay(0.1));
}

}  // namespace reprise::workloads
