// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "workloads/strategy.h"

// The two halves of a transformer block, and a stack of blocks that strategies can act upon. With
// the norm first (GPT-2) a half is x + dropout(f(LayerNorm(x))); with the norm last (BERT) it is
// LayerNorm(x + dropout(f(x))).

namespace reprise::workloads {

enum class NormPlace { first, last };

torch::nn::LayerNorm layer_norm(int64_t width);

/// Self-attention through scaled_dot_product_attention, on batch × context × width.
class SelfAttention final : public torch::nn::Module {
 public:
  SelfAttention(int64_t width, int64_t heads, double dropout, NormPlace norm);

  /// Without a mask it is causal: a position sees itself and those before. A mask, of booleans and
  /// broadcast to batch × heads × context × context, is true where a position may be seen.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask = {});

 private:
  int64_t heads_;
  NormPlace place_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear qkv_, out_;
  torch::nn::Dropout dropout_;
};

/// Two Linears with a GELU between them, four times as wide inside.
class FeedForward final : public torch::nn::Module {
 public:
  FeedForward(int64_t width, double dropout, NormPlace norm);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  NormPlace place_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear up_, down_;
  torch::nn::Dropout dropout_;
};

struct TransformerSizes {
  int64_t layers, width, heads;
  double dropout;
  NormPlace norm;
};

/// A row of blocks: "0.attention", "0.ffn", "1.attention", ... Throws UsageError where the heads do
/// not divide the width.
class TransformerStack final : public torch::nn::Module {
 public:
  explicit TransformerStack(const TransformerSizes& sizes);

  /// Runs the blocks by a strategy. The regions of this forward pass keep `mask`.
  torch::Tensor forward(const Strategy& strategy, const torch::Tensor& x,
                        const torch::Tensor& mask = {});

  /// The blocks as layers; they run as in the last forward pass.
  const std::vector<Layer>& layers() const { return layers_; }
  static std::vector<std::string> part_names() { return {"attention", "ffn"}; }

 private:
  struct Pass {
    Strategy strategy;
    torch::Tensor mask;
  };
  std::vector<Layer> layers_of(std::shared_ptr<const Pass> pass) const;

  struct Block;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<Layer> layers_;
};

}  // namespace reprise::workloads
