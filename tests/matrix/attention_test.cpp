// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Attention, with masks and dropout.

namespace reprise::matrix {
namespace {

Tensor causal(const Tensor& like) {
  return at::full({5, 5}, -1e9, like.options().requires_grad(false)).triu(1);
}

TEST(Matrix, ScaledDotProductAttention) {
  check("scaled dot product attention", training([](const Cell& cell) {
          nn::Linear in(8, 24);
          return model_of(cell, in.ptr(), {2, 5, 8}, [=](const Tensor& x, int) mutable {
            const auto parts = in(x).view({2, 5, 3, 2, 4}).transpose(1, 3).unbind(2);
            const Tensor &q = parts[0], &k = parts[1], &v = parts[2];
            const Tensor flash = at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
            const Tensor masked = at::scaled_dot_product_attention(q, k, v, causal(x));
            const Tensor booleans =
                at::scaled_dot_product_attention(q, k, v, at::ones({5, 5}, at::kBool).tril());
            const Tensor dropped = at::scaled_dot_product_attention(q, k, v, causal(x), 0.3);
            return flash.sin() + masked.exp() + booleans.cos() + boundary(dropped).tanh();
          });
        }));
}

// The module's masks are not implemented for bfloat16.
TEST(Matrix, MultiheadAttention) {
  check("multihead attention", training([](const Cell& cell) {
          nn::MultiheadAttention layer(nn::MultiheadAttentionOptions(8, 2).dropout(0.2));
          return model_of(cell, layer.ptr(), {5, 2, 8}, [=](const Tensor& x, int) mutable {
            const Tensor padding = at::zeros({2, 5}, at::kBool);
            padding.select(1, 4).fill_(true);
            const auto [y, weights] = layer(x, x.sin(), x, padding, true, causal(x));
            return y + weights.mean();
          });
        }),
        {at::kFloat, at::kDouble});
}

TEST(Matrix, TransformerEncoder) {
  check(
      "transformer encoder",
      training(
          [](const Cell& cell) {
            const auto layers = std::make_shared<nn::ModuleListImpl>();
            for (int i = 0; i < 2; ++i) {
              layers->push_back(nn::TransformerEncoderLayer(
                  nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.2)));
            }
            return model_of(cell, layers, {5, 2, 8}, [=](Tensor x, int) {
              for (int i = 0; i < 2; ++i) {
                const ModuleScope block("blocks." + std::to_string(i));
                x = boundary(layers->at<nn::TransformerEncoderLayerImpl>(i).forward(x, causal(x)));
              }
              return x;
            });
          },
          /*steps=*/2));
}

}  // namespace
}  // namespace reprise::matrix
