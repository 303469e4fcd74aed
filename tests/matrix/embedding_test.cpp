// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Embeddings. With max_norm, the lookup writes to the weight first.

namespace reprise::matrix {
namespace {

Tensor words(at::IntArrayRef sizes) { return at::randint(10, sizes); }

TEST(Matrix, Embedding) {
  check("embedding", training([](const Cell& cell) {
          nn::Embedding table(nn::EmbeddingOptions(10, 4).padding_idx(1));
          return model_of(cell, table.ptr(), {3, 4}, [=](const Tensor& x, int) mutable {
            return at::layer_norm(table(words({3})).sin() * x, {4}).exp();
          });
        }));
}

TEST(Matrix, EmbeddingWithMaxNorm) {
  check("embedding with max_norm", training([](const Cell& cell) {
          nn::Embedding table(nn::EmbeddingOptions(10, 4).max_norm(0.5));
          return model_of(cell, table.ptr(), {3, 4}, [=](const Tensor& x, int) mutable {
            const Tensor a = table(words({3})).sin();
            return a * table(words({3})).exp() * x.tanh();
          });
        }));
}

TEST(Matrix, EmbeddingBags) {
  check("embedding bags", training([](const Cell& cell) {
          nn::ModuleList both;
          nn::EmbeddingBag sum(nn::EmbeddingBagOptions(10, 4).mode(torch::kSum));
          nn::EmbeddingBag max(nn::EmbeddingBagOptions(10, 4).mode(torch::kMax).max_norm(0.8));
          both->push_back(sum);
          both->push_back(max);
          return model_of(cell, both.ptr(), {3, 4}, [=](const Tensor& x, int) mutable {
            const Tensor offsets = at::tensor({0, 2, 5}, at::kLong);
            const Tensor weights = x.flatten().slice(0, 0, 8).sigmoid();
            return sum->forward(words({8}), offsets, weights).sin() *
                   max->forward(words({8}), offsets).exp() * x.cos();
          });
        }));
}

}  // namespace
}  // namespace reprise::matrix
