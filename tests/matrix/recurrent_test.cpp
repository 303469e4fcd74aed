// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Recurrent nets: the layers, whose kernels work in place and look at requires_grad, and cells that
// are unrolled by hand.

namespace reprise::matrix {
namespace {

TEST(Matrix, Lstm) {
  check("LSTM", training([](const Cell& cell) {
          nn::LSTM lstm(nn::LSTMOptions(4, 5).num_layers(2).dropout(0.3));
          return model_of(cell, lstm.ptr(), {6, 2, 4}, [=](const Tensor& x, int) mutable {
            const auto [y, state] = lstm(x);
            return y + std::get<1>(state)[1];
          });
        }));
}

TEST(Matrix, Gru) {
  check("GRU", training([](const Cell& cell) {
          nn::GRU gru(nn::GRUOptions(4, 5).bidirectional(true));
          return model_of(cell, gru.ptr(), {6, 2, 4},
                          [=](const Tensor& x, int) mutable { return std::get<0>(gru(x)).sin(); });
        }));
}

struct Cells : nn::Module {
  Cells() {
    register_module("lstm", lstm);
    register_module("gru", gru);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = at::zeros({2, 4}, x.options()), c = h, g = h;
    for (const Tensor& input : x.unbind(0)) {
      std::tie(h, c) = lstm(input, std::make_tuple(h, c));
      g = boundary(gru(h, g), "layer");
    }
    return g + c;
  }
  nn::LSTMCell lstm{nn::LSTMCellOptions(3, 4)};
  nn::GRUCell gru{nn::GRUCellOptions(4, 4)};
};

TEST(Matrix, UnrolledCells) {
  check("unrolled cells", training(
                              [](const Cell& cell) {
                                const auto net = std::make_shared<Cells>();
                                return model_of(cell, net, {5, 2, 3}, [=](const Tensor& x, int) {
                                  return net->forward(x);
                                });
                              },
                              /*steps=*/2));
}

}  // namespace
}  // namespace reprise::matrix
