// SPDX-License-Identifier: BSD-3-Clause
#include "frame.h"
#include "operators.h"

// Matrix products and layers.

namespace reprise::fuzz {
namespace {

Operand of_shape(Frame& f, at::ScalarType type, at::IntArrayRef sizes) {
  return f.pick([&](const Tensor& t) { return t.scalar_type() == type && t.sizes() == sizes; });
}

Operand matrix_for(Frame& f, const Tensor& left) {
  return f.pick([&](const Tensor& t) {
    return t.scalar_type() == left.scalar_type() && t.dim() == 2 && t.size(0) == left.size(-1);
  });
}

/// A factor that keeps products from growing.
constexpr double kSmall = 0.4;

}  // namespace

void add_products(Table& table) {
  table.push_back({"mm", [](Frame& f) {
                     const Operand x = f.single(2), y = matrix_for(f, x.t);
                     f.put(at::mm(x.t, y.t) * kSmall, "mm(", x, ", ", y, ")");
                   }});
  table.push_back({"matmul", [](Frame& f) {
                     const Operand x = f.floating(1, 4), y = matrix_for(f, x.t);
                     f.put(at::matmul(x.t, y.t) * kSmall, "matmul(", x, ", ", y, ")");
                   }});
  table.push_back({"bmm", [](Frame& f) {
                     const Operand x = f.single(3);
                     f.put(at::bmm(x.t, x.t.transpose(1, 2)) * kSmall, "bmm(", x, ", transposed)");
                   }});
  table.push_back({"addmm", [](Frame& f) {
                     const Operand x = f.single(2), y = matrix_for(f, x.t);
                     const Operand z = f.pick([&](const Tensor& t) {
                       return t.scalar_type() == x.t.scalar_type() && t.dim() == 1 &&
                              (t.size(0) == y.t.size(1) || t.size(0) == 1);
                     });
                     f.put(at::addmm(z.t, x.t, y.t, 0.5, 0.3), "addmm(", z, ", ", x, ", ", y, ")");
                   }});
  table.push_back(
      {"linear", [](Frame& f) {
         const Operand x = f.pick([](const Tensor& t) {
           return t.scalar_type() == at::kFloat && t.dim() >= 1 && t.size(-1) == 4;
         });
         const Operand w = of_shape(f, at::kFloat, {4, 4}), b = of_shape(f, at::kFloat, {4});
         f.put(at::linear(x.t, w.t, b.t), "linear(", x, ", ", w, ", ", b, ")");
       }});
  table.push_back({"einsum", [](Frame& f) {
                     const Operand x = f.single(3), y = f.pick([&](const Tensor&t) {
                       return t.scalar_type() == x.t.scalar_type() && t.dim() == 2 &&
                              t.size(0) == x.t.size(2);
                     });
                     f.put(at::einsum("bij,jk->bk", {x.t, y.t}) * 0.2, "einsum(", x, ", ", y, ")");
                   }});
  table.push_back({"outer", [](Frame& f) {
                     const Operand x = f.single(1), y = f.single(1);
                     f.put(at::outer(x.t, y.t), "outer(", x, ", ", y, ")");
                   }});
  table.push_back({"inverse",
                   [](Frame& f) {
                     const Operand x = of_shape(f, at::kDouble, {4, 4});
                     const Tensor m = x.t.tanh() * 0.2 + at::eye(4, at::kDouble);
                     f.put(at::linalg_inv(m), "inverse(tanh(", x, ") / 5 + 1)");
                   },
                   true, true});
  table.push_back({"cholesky",
                   [](Frame& f) {
                     const Operand x = of_shape(f, f.chance(50) ? at::kFloat : at::kDouble, {4, 4});
                     const Tensor m = at::mm(x.t, x.t.t()) + 2 * at::eye(4, x.t.options());
                     f.put(at::linalg_cholesky(m), "cholesky(", x, " ", x, "^T + 2)");
                   },
                   true, true});
  table.push_back(
      {"solve",
       [](Frame& f) {
         const Operand x = of_shape(f, at::kFloat, {4, 4}), y = f.pick([](const Tensor&t) {
           return t.scalar_type() == at::kFloat && t.dim() == 2 && t.size(0) == 4;
         });
         const Tensor m = x.t.tanh() * 0.2 + at::eye(4);
         f.put(at::linalg_solve(m, y.t), "solve(tanh(", x, ") / 5 + 1, ", y, ")");
       },
       true, true});
  table.push_back({"sparse mm", [](Frame& f) {
                     const Operand y = f.pick([](const Tensor& t) {
                       return t.scalar_type() == at::kFloat && t.dim() == 2 && t.size(0) == 4;
                     });
                     Tensor sparse;
                     if (f.chance(50)) {
                       sparse = (f.input * f.mask).to_sparse();
                     } else {
                       sparse = y.t.detach().narrow(1, 0, 1).expand({4, 4}).to_sparse();
                     }
                     const Tensor out = at::_sparse_mm(sparse, y.t) * kSmall;
                     f.put(out, "sparse mm with ", y);
                     if (f.chance(40)) {
                       const torch::NoGradGuard guard;
                       Tensor dense = sparse.to_dense();
                       if (f.chance(50)) {
                         sparse.mul_(0.5);
                         f.say("then the sparse matrix is halved, unless it was saved");
                       }
                       f.put(dense, "the sparse matrix");
                     }
                   }});
  table.push_back(
      {"scaled_dot_product_attention",
       [](Frame& f) {
         const Operand x =
             f.pick([](const Tensor& t) { return t.scalar_type() == at::kFloat && t.dim() == 3; });
         const Tensor q = x.t.unsqueeze(0);
         const double p = f.chance(30) ? 0.2 : 0.0;
         f.put(at::scaled_dot_product_attention(q, q.sin(), q, {}, p, p == 0.0).squeeze(0),
               "attention(", x, ", ", p, ")");
       },
       true, true});
}

void add_layers(Table& table) {
  table.push_back(
      {"layer_norm", [](Frame& f) {
         const Operand x = f.pick([](const Tensor& t) {
           return t.scalar_type() == at::kFloat && t.dim() >= 1 && t.size(-1) == 4;
         });
         const Operand w = of_shape(f, at::kFloat, {4}), b = of_shape(f, at::kFloat, {4});
         f.put(at::layer_norm(x.t, {4}, w.t, b.t), "layer_norm(", x, ", ", w, ", ", b, ")");
       }});
  table.push_back(
      {"batch_norm", [](Frame& f) {
         const Operand x = f.pick([](const Tensor& t) {
           return t.scalar_type() == at::kFloat && t.dim() >= 2 && t.size(1) == 4 && t.numel() > 4;
         });
         const Operand w = of_shape(f, at::kFloat, {4}), b = of_shape(f, at::kFloat, {4});
         const bool training = f.chance(60);
         const Tensor y =
             at::batch_norm(x.t, w.t, b.t, f.mean, f.variance, training, 0.3, 1e-3, false);
         f.put(y, "batch_norm(", x, ", ", w, ", ", b, training ? ", training)" : ", eval)");
       }});
  table.push_back(
      {"batch_norm of made statistics", [](Frame& f) {
         const Operand x = f.pick([](const Tensor& t) {
           return t.scalar_type() == at::kFloat && t.dim() >= 2 && t.size(1) == 4 && t.numel() > 4;
         });
         const Tensor mean = f.mean * 1, variance = f.variance + 0.5;
         const Tensor y = at::batch_norm(x.t, {}, {}, mean, variance, true, 0.3, 1e-3, false);
         f.put(y, "batch_norm(", x, ") of copied statistics");
         f.put(mean, "their mean");
       }});
  table.push_back({"instance_norm", [](Frame& f) {
                     const Operand x = f.single(3);
                     f.put(at::instance_norm(x.t, {}, {}, {}, {}, true, 0.1, 1e-3, false),
                           "instance_norm(", x, ")");
                   }});
  table.push_back({"group_norm", [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return t.scalar_type() == at::kFloat && t.dim() >= 3 && t.size(1) == 4;
                     });
                     f.put(at::group_norm(x.t, 2), "group_norm(", x, ", 2)");
                   }});
  table.push_back({"conv2d", [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return t.scalar_type() == at::kFloat && t.dim() == 4 && t.size(1) == 4 &&
                              t.size(2) >= 3 && t.size(3) >= 3;
                     });
                     const Operand w = of_shape(f, at::kFloat, {4, 4});
                     const Tensor kernel = w.t.view({2, 2, 2, 2}).repeat({1, 2, 1, 1}) * 0.2;
                     const bool last = f.chance(30);
                     const Tensor in = last ? x.t.contiguous(at::MemoryFormat::ChannelsLast) : x.t;
                     f.put(at::conv2d(in, kernel, {}, 1, f.below(2)), "conv2d(", x, ", ", w, ")");
                   }});
  table.push_back(
      {"conv1d", [](Frame& f) {
         const Operand x = f.pick([](const Tensor& t) {
           return t.scalar_type() == at::kFloat && t.dim() == 3 && t.size(1) == 4 && t.size(2) >= 3;
         });
         const Operand w = of_shape(f, at::kFloat, {4, 4}), b = of_shape(f, at::kFloat, {4});
         const Tensor kernel = w.t.unsqueeze(2).expand({4, 4, 2}) * 0.2;
         f.put(at::conv1d(x.t, kernel, b.t), "conv1d(", x, ", ", w, ", ", b, ")");
       }});
  table.push_back({"conv_transpose2d", [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return t.scalar_type() == at::kFloat && t.dim() == 4 && t.size(1) == 4;
                     });
                     const Operand w = of_shape(f, at::kFloat, {4, 4});
                     f.put(at::conv_transpose2d(x.t, w.t.view({4, 1, 2, 2}) * 0.3, {}, 2),
                           "conv_transpose2d(", x, ", ", w, ")");
                   }});
  table.push_back(
      {"pool", [](Frame& f) {
         const Operand x = f.pick([](const Tensor& t) {
           return is_single(t) && t.dim() == 4 && t.size(2) >= 2 && t.size(3) >= 2;
         });
         switch (f.below(3)) {
           case 0:
             return f.put(at::max_pool2d(x.t, 2), "max_pool2d(", x, ", 2)");
           case 1:
             return f.put(at::avg_pool2d(x.t, 2), "avg_pool2d(", x, ", 2)");
           default:
             return f.put(at::adaptive_avg_pool2d(x.t, {2, 2}), "adaptive_avg_pool2d(", x, ")");
         }
       }});
  table.push_back(
      {"interpolate", [](Frame& f) {
         const Operand x = f.pick(
             [](const Tensor& t) { return is_single(t) && t.dim() == 4 && t.numel() <= 100; });
         if (f.chance(50)) {
           f.put(at::upsample_nearest2d(x.t, {6, 6}), "upsample_nearest2d(", x, ")");
         } else {
           f.put(at::upsample_bilinear2d(x.t, {5, 5}, false), "upsample_bilinear2d(", x, ")");
         }
       }});
  table.push_back({"embedding",
                   [](Frame& f) {
                     const Operand w = f.pick([](const Tensor& t) {
                       return is_single(t) && t.dim() == 2 && t.size(0) == 4;
                     });
                     f.put(at::embedding(w.t, f.indices), "embedding(", w, ", indices)");
                   },
                   false});
  table.push_back(
      {"lstm",
       [](Frame& f) {
         const Operand x = of_shape(f, at::kFloat, {2, 4, 4}), w = of_shape(f, at::kFloat, {4, 4});
         const Tensor weight = w.t.repeat({4, 1}) * 0.5, h = at::zeros({1, 4, 4});
         const auto out = at::lstm(x.t, {h, h}, {weight, weight}, false, 1, 0., true, false, false);
         f.put(std::get<0>(out), "lstm(", x, ", ", w, ")");
         f.put(std::get<2>(out), "its cells");
       },
       true, true});
  table.push_back(
      {"gru_cell",
       [](Frame& f) {
         const Operand x = of_shape(f, at::kFloat, {4, 4}), h = of_shape(f, at::kFloat, {4, 4});
         const Tensor weight = x.t.repeat({3, 1}) * 0.5;
         f.put(at::gru_cell(x.t, h.t, weight, weight), "gru_cell(", x, ", ", h, ")");
       },
       true, true});
  table.push_back({"cross_entropy", [](Frame& f) {
                     const Operand x = of_shape(f, at::kFloat, {4, 4});
                     f.put(at::cross_entropy_loss(x.t, f.indices), "cross_entropy(", x,
                           ", indices)");
                   }});
  table.push_back(
      {"losses", [](Frame& f) {
         const Operand x = of_shape(f, at::kFloat, {4, 4}), y = of_shape(f, at::kFloat, {4, 4});
         switch (f.below(3)) {
           case 0:
             return f.put(at::mse_loss(x.t, y.t), "mse_loss(", x, ", ", y, ")");
           case 1:
             return f.put(at::huber_loss(x.t, y.t), "huber_loss(", x, ", ", y, ")");
           default:
             return f.put(at::binary_cross_entropy_with_logits(x.t, y.t.sigmoid()),
                          "bce_with_logits(", x, ", ", y, ")");
         }
       }});
}

}  // namespace reprise::fuzz
