// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/transformer.h"

#include <utility>

#include <reprise/error.h>

namespace reprise::workloads {

namespace nn = torch::nn;
using torch::Tensor;

nn::LayerNorm layer_norm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

SelfAttention::SelfAttention(int64_t width, int64_t heads, double dropout, NormPlace norm)
    : heads_(heads),
      place_(norm),
      norm_(register_module("norm", layer_norm(width))),
      qkv_(register_module("qkv", nn::Linear(width, 3 * width))),
      out_(register_module("out", nn::Linear(width, width))),
      dropout_(register_module("dropout", nn::Dropout(dropout))) {}

Tensor SelfAttention::forward(const Tensor& x, const Tensor& mask) {
  const int64_t batch = x.size(0), context = x.size(1), width = x.size(2);
  const auto qkv = qkv_(place_ == NormPlace::first ? norm_(x) : x)
                       .view({batch, context, 3, heads_, width / heads_})
                       .permute({2, 0, 3, 1, 4})
                       .unbind(0);
  const std::optional<Tensor> seen = mask.defined() ? std::optional(mask) : std::nullopt;
  const Tensor mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], seen, 0.0,
                                                        /*is_causal=*/!mask.defined());
  const Tensor sum = x + dropout_(out_(mixed.transpose(1, 2).reshape({batch, context, width})));
  return place_ == NormPlace::first ? sum : norm_(sum);
}

FeedForward::FeedForward(int64_t width, double dropout, NormPlace norm)
    : place_(norm),
      norm_(register_module("norm", layer_norm(width))),
      up_(register_module("up", nn::Linear(width, 4 * width))),
      down_(register_module("down", nn::Linear(4 * width, width))),
      dropout_(register_module("dropout", nn::Dropout(dropout))) {}

Tensor FeedForward::forward(const Tensor& x) {
  const Tensor sum = x + dropout_(down_(at::gelu(up_(place_ == NormPlace::first ? norm_(x) : x))));
  return place_ == NormPlace::first ? sum : norm_(sum);
}

struct TransformerStack::Block final : torch::nn::Module {
  explicit Block(const TransformerSizes& sizes)
      : attention(register_module(
            "attention",
            std::make_shared<SelfAttention>(sizes.width, sizes.heads, sizes.dropout, sizes.norm))),
        ffn(register_module(
            "ffn", std::make_shared<FeedForward>(sizes.width, sizes.dropout, sizes.norm))) {}

  std::shared_ptr<SelfAttention> attention;
  std::shared_ptr<FeedForward> ffn;
};

TransformerStack::TransformerStack(const TransformerSizes& sizes) {
  if (sizes.width % sizes.heads != 0) {
    throw UsageError("--width " + std::to_string(sizes.width) + " is not a multiple of --heads " +
                         std::to_string(sizes.heads),
                     "every head takes an equal part of the width");
  }
  for (int64_t i = 0; i < sizes.layers; ++i) {
    blocks_.push_back(register_module(std::to_string(i), std::make_shared<Block>(sizes)));
  }
  layers_ = layers_of(std::make_shared<Pass>(Pass{parse_strategy("plain"), {}}));
}

// The layers hold what belongs to one pass, so that a region that replays later, or after another
// pass has begun, runs as it ran first.
std::vector<Layer> TransformerStack::layers_of(std::shared_ptr<const Pass> pass) const {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const std::vector<LayerPart> parts = {
        {"attention", [attention = blocks_[i]->attention,
                       pass](const Tensor& x) { return attention->forward(x, pass->mask); }},
        {"ffn", [ffn = blocks_[i]->ffn](const Tensor& x) { return ffn->forward(x); }}};
    layers.emplace_back([parts, pass, number = static_cast<int64_t>(i)](const Tensor& x) {
      return run_parts(pass->strategy, parts, number, x);
    });
  }
  return layers;
}

Tensor TransformerStack::forward(const Strategy& strategy, const Tensor& x, const Tensor& mask) {
  layers_ = layers_of(std::make_shared<Pass>(Pass{strategy, mask}));
  return run_layers(strategy, layers_, make_segments(static_cast<int64_t>(layers_.size()), 1), x);
}

}  // namespace reprise::workloads
