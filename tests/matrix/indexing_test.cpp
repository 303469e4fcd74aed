// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Reads and writes by index: lists of optional tensors, masks, gather and scatter.

namespace reprise::matrix {
namespace {

using torch::indexing::None;
using torch::indexing::Slice;

Tensor longs(at::ArrayRef<int64_t> values) { return at::tensor(values); }

TEST(Matrix, IndexingWithOptionalTensorLists) {
  check("optional tensor lists", training([](const Cell& cell) {
          return model_of(cell, {{5, 6, 4}}, {5, 6, 4}, [](const auto& p, const Tensor& input) {
            const Tensor i = longs({0, 2, 4}), j = longs({1, 3, 0});
            const Tensor x = p[0].exp() * input.sin();
            const Tensor a = x.index({i, Slice(), j}).sin();
            const Tensor b = x.index({None, Slice(), i, j}).exp();
            const Tensor c = x.index({x.select(2, 0) > 0}).cos();
            return at::cat({a.flatten(), b.flatten(), c.flatten()});
          });
        }));
}

TEST(Matrix, IndexedWrites) {
  check("indexed writes", training([](const Cell& cell) {
          return model_of(cell, {{5, 6, 4}}, {5, 6, 4}, [](const auto& p, const Tensor& input) {
            const Tensor i = longs({0, 2, 2}), j = longs({1, 3, 3});
            Tensor x = p[0].exp() + input;
            x.index_put_({i, j}, x.index({i, j}).cos(), /*accumulate=*/true);
            x.index_put_({x.detach() > 1.5}, at::scalar_tensor(0.5, input.options()));
            x.index_add_(1, j, p[0].slice(1, 0, 3).tanh());
            x.masked_fill_(x.detach() < -1, 0.25);
            x.masked_scatter_(x.detach() > 1, p[0].sin());
            x.index_fill_(2, longs({1}), 0.75);
            return x.sigmoid() * x.sin();
          });
        }));
}

TEST(Matrix, GatherScatterAndSelect) {
  check("gather and scatter", training([](const Cell& cell) {
          return model_of(cell, {{5, 6, 4}}, {5, 6, 4}, [](const auto& p, const Tensor& input) {
            const Tensor index = at::arange(40).remainder(5).view({5, 2, 4});
            const Tensor x = p[0].exp() * input;
            const Tensor y = x.sin().scatter(1, index, x.gather(1, index).cos());
            const Tensor z = y.scatter_add(1, index, y.slice(1, 2, 4).tanh());
            const auto [top, where] = z.topk(3, 1);
            const Tensor chosen = z.take_along_dim(where, 1) * top.exp();
            const Tensor masked = z.masked_select(z.detach() > 0.1).sin();
            return at::cat({at::where(z > 0, z.exp(), z.sin()).flatten(), chosen.flatten(), masked,
                            z.index_select(2, longs({3, 1, 1})).cos().flatten()});
          });
        }));
}

}  // namespace
}  // namespace reprise::matrix
