// SPDX-License-Identifier: BSD-3-Clause
#include "frame.h"
#include "operators.h"

// Views, joins, indexing and casts.

namespace reprise::fuzz {
namespace {

int64_t numel_of_view(Frame& f, const Tensor& t) { return 1 + f.below(t.size(0)); }

}  // namespace

void add_views(Table& table) {
  table.push_back({"reshape",
                   [](Frame& f) {
                     const Operand x = f.any();
                     if (x.t.numel() % 2 == 0 && f.chance(60)) {
                       return f.put(x.t.reshape({2, -1}), "reshape(", x, ", {2, -1})");
                     }
                     f.put(x.t.reshape({-1}), "reshape(", x, ", {-1})");
                   },
                   false});
  table.push_back({"view",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return t.is_contiguous() && t.numel() % 4 == 0 && t.numel() > 0;
                     });
                     if (x.t.numel() == 16) return f.put(x.t.view({4, 4}), "view(", x, ", {4, 4})");
                     f.put(x.t.view({-1, 4}), "view(", x, ", {-1, 4})");
                   },
                   false});
  table.push_back({"transpose",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() >= 2; });
                     const int64_t a = f.dim_of(x.t), b = f.dim_of(x.t);
                     f.put(x.t.transpose(a, b), "transpose(", x, ", ", a, ", ", b, ")");
                   },
                   false});
  table.push_back({"t",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() == 2; });
                     f.put(x.t.t(), x, ".t()");
                   },
                   false});
  table.push_back({"permute",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() == 3; });
                     f.put(x.t.permute({2, 0, 1}), "permute(", x, ", {2, 0, 1})");
                   },
                   false});
  table.push_back({"slice",
                   [](Frame& f) {
                     const Operand x =
                         f.pick([](const Tensor& t) { return t.dim() >= 1 && t.numel() > 1; });
                     const int64_t d = f.dim_of(x.t), n = x.t.size(d), from = f.below(n);
                     const int64_t step = 1 + f.below(2);
                     f.put(x.t.slice(d, from, n, step), "slice(", x, ", ", d, ", ", from, ", ", n,
                           ", ", step, ")");
                   },
                   false});
  table.push_back({"select",
                   [](Frame& f) {
                     const Operand x =
                         f.pick([](const Tensor& t) { return t.dim() >= 1 && t.numel() > 0; });
                     const int64_t d = f.dim_of(x.t), i = f.below(x.t.size(d));
                     f.put(x.t.select(d, i), "select(", x, ", ", d, ", ", i, ")");
                   },
                   false});
  table.push_back({"narrow",
                   [](Frame& f) {
                     const Operand x =
                         f.pick([](const Tensor& t) { return t.dim() >= 1 && t.size(0) > 0; });
                     const int64_t n = numel_of_view(f, x.t);
                     f.put(x.t.narrow(0, x.t.size(0) - n, n), "narrow(", x, ", last ", n, ")");
                   },
                   false});
  table.push_back({"expand",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() <= 2; });
                     auto sizes = x.t.sizes().vec();
                     sizes.insert(sizes.begin(), 2);
                     f.put(x.t.expand(sizes), "expand(", x, ", 2 times)");
                   },
                   false});
  table.push_back({"unsqueeze",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() < 4; });
                     const int64_t d = f.below(x.t.dim() + 1);
                     f.put(x.t.unsqueeze(d), "unsqueeze(", x, ", ", d, ")");
                   },
                   false});
  table.push_back({"squeeze",
                   [](Frame& f) {
                     const Operand x = f.any();
                     f.put(x.t.squeeze(), "squeeze(", x, ")");
                   },
                   false});
  table.push_back({"flip",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() >= 1; });
                     f.put(x.t.flip({f.dim_of(x.t)}), "flip(", x, ")");
                   },
                   false});
  table.push_back({"roll",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() >= 1; });
                     f.put(x.t.roll(1, 0), "roll(", x, ")");
                   },
                   false});
  table.push_back(
      {"as_strided",
       [](Frame& f) {
         const Operand x = f.pick([](const Tensor& t) {
           return t.is_contiguous() && t.numel() >= 8 && !t.is_conj() && !t.is_neg();
         });
         f.put(x.t.as_strided({3, 2}, {2, 1}, x.t.storage_offset() + 1), "as_strided(", x, ")");
       },
       false});
  table.push_back({"diagonal",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) { return t.dim() == 2; });
                     f.put(x.t.diagonal(), "diagonal(", x, ")");
                   },
                   false});
  table.push_back({"unfold",
                   [](Frame& f) {
                     const Operand x =
                         f.pick([](const Tensor& t) { return t.dim() >= 1 && t.size(-1) >= 3; });
                     f.put(x.t.unfold(-1, 2, 1), "unfold(", x, ", -1, 2, 1)");
                   },
                   false});
  table.push_back({"cat",
                   [](Frame& f) {
                     const Operand x = f.floating(1), y = f.pick([&](const Tensor&t) {
                       return t.sizes() == x.t.sizes() && is_real(t);
                     });
                     f.put(at::cat({x.t, y.t}, f.dim_of(x.t)), "cat(", x, ", ", y, ")");
                   },
                   false});
  table.push_back({"stack",
                   [](Frame& f) {
                     const Operand x = f.floating(), y = f.pick([&](const Tensor&t) {
                       return t.sizes() == x.t.sizes() && t.scalar_type() == x.t.scalar_type();
                     });
                     f.put(at::stack({x.t, y.t, x.t}), "stack(", x, ", ", y, ", ", x, ")");
                   },
                   false});
  table.push_back({"split",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     for (const Tensor& part : x.t.split(2, f.dim_of(x.t)))
                       f.put(part, "split of ", x);
                   },
                   false});
  table.push_back({"chunk",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     for (const Tensor& part : x.t.chunk(3, -1)) f.put(part, "chunk of ", x);
                   },
                   false});
  table.push_back({"unbind",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const auto parts = x.t.unbind(0);
                     f.put(parts[0], "unbind of ", x);
                     f.put(parts.back(), "its last");
                   },
                   false});
  table.push_back(
      {"repeat",
       [](Frame& f) {
         const Operand x = f.floating(1, 2);
         f.put(x.t.dim() == 1 ? x.t.repeat({2}) : x.t.repeat({1, 2}), "repeat(", x, ")");
       },
       false});
  table.push_back({"clone",
                   [](Frame& f) {
                     const Operand x = f.any();
                     f.put(x.t.clone(), "clone(", x, ")");
                   },
                   false});
  table.push_back({"contiguous",
                   [](Frame& f) {
                     const Operand x = f.any();
                     f.put(x.t.contiguous(), "contiguous(", x, ")");
                   },
                   false});
  table.push_back({"cast",
                   [](Frame& f) {
                     const Operand x = f.floating();
                     const at::ScalarType types[] = {at::kFloat, at::kDouble, at::kBFloat16};
                     const at::ScalarType type = types[f.below(3)];
                     f.put(x.t.to(type), x, ".to(", type, ")");
                   },
                   false});
  table.push_back({"complex",
                   [](Frame& f) {
                     const Operand x =
                         f.pick([](const Tensor& t) { return t.scalar_type() == at::kFloat; });
                     const Operand y = f.pick([&](const Tensor& t) {
                       return t.scalar_type() == at::kFloat && t.sizes() == x.t.sizes();
                     });
                     f.put(at::complex(x.t, y.t), "complex(", x, ", ", y, ")");
                   },
                   false});
  table.push_back({"of complex",
                   [](Frame& f) {
                     const Operand z = f.pick([](const Tensor& t) { return t.is_complex(); });
                     switch (f.below(6)) {
                       case 0:
                         return f.put(at::real(z.t), "real(", z, ")");
                       case 1:
                         return f.put(at::imag(z.t), "imag(", z, ")");
                       case 2:
                         return f.put(at::imag(z.t.conj()), "imag(conj(", z, "))");
                       case 3:
                         return f.put(z.t.conj(), "conj(", z, ")");
                       case 4:
                         f.saves_inputs(true);
                         return f.put(z.t * z.t.conj().sin(), z, " * sin(conj(", z, "))");
                       default:
                         return f.put(at::view_as_real(z.t.resolve_conj()), "view_as_real(", z,
                                      ")");
                     }
                   },
                   true});
}

void add_indexing(Table& table) {
  const auto rows = [](Frame& f) {
    return f.pick([](const Tensor& t) { return is_real(t) && t.dim() >= 1 && t.size(0) == 4; });
  };
  table.push_back({"index",
                   [=](Frame& f) {
                     const Operand x = rows(f);
                     f.put(x.t.index({f.indices}), x, "[indices]");
                   },
                   false});
  table.push_back(
      {"index with gaps",
       [](Frame& f) {
         const Operand x =
             f.pick([](const Tensor& t) { return is_real(t) && t.dim() == 3 && t.size(2) == 4; });
         using namespace torch::indexing;
         f.put(x.t.index({Slice(), None, Slice(), f.indices}), x, "[:, None, :, indices]");
       },
       false});
  table.push_back({"index by mask",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return is_real(t) && t.dim() == 2 && t.numel() > 0;
                     });
                     f.put(x.t.index({x.t > 0}), x, "[", x, " > 0]");
                   },
                   false});
  table.push_back({"index_select",
                   [=](Frame& f) {
                     const Operand x = rows(f);
                     f.put(x.t.index_select(0, f.indices), "index_select(", x, ")");
                   },
                   false});
  table.push_back({"gather",
                   [=](Frame& f) {
                     const Operand x = rows(f);
                     const Tensor at = x.t.detach().argsort(int64_t{0}, false);
                     f.put(x.t.gather(0, at), "gather(", x, ", argsort)");
                   },
                   false});
  table.push_back({"scatter",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return is_real(t) && t.dim() == 2 && t.size(0) == 4 && t.size(1) == 4;
                     });
                     const Tensor at = f.indices.unsqueeze(0).expand({2, 4});
                     if (f.chance(50)) {
                       return f.put(x.t.scatter(0, at, x.t.slice(0, 0, 2)), "scatter(", x, ")");
                     }
                     f.put(x.t.scatter_add(0, at, x.t.slice(0, 1, 3)), "scatter_add(", x, ")");
                   },
                   false});
  table.push_back({"index_put",
                   [=](Frame& f) {
                     const Operand x = rows(f);
                     const Tensor values = x.t.index({f.indices});
                     f.put(x.t.index_put({f.indices}, values, true), "index_put(", x,
                           ", accumulate)");
                   },
                   false});
  table.push_back({"index_add",
                   [=](Frame& f) {
                     const Operand x = rows(f);
                     f.put(x.t.index_add(0, f.indices, x.t, 0.5), "index_add(", x, ")");
                   },
                   false});
  table.push_back({"masked_fill",
                   [](Frame& f) {
                     const Operand x = f.floating();
                     f.put(x.t.masked_fill(x.t > 0.5, 0.25), "masked_fill(", x, ")");
                   },
                   false});
  table.push_back({"masked_select",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     f.put(x.t.masked_select(x.t < 1), "masked_select(", x, ")");
                   },
                   true});
  table.push_back({"take_along",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     f.put(at::take_along_dim(x.t, x.t.detach().argsort(int64_t{-1}, false), -1),
                           "take_along_dim(", x, ")");
                   },
                   false});
  table.push_back({"indexed by a made index",
                   [](Frame& f) {
                     const Operand i = f.pick([](const Tensor& t) {
                       return t.scalar_type() == at::kLong && t.dim() >= 1 && t.numel() > 0;
                     });
                     const Operand x = f.floating(1);
                     f.put(x.t.index({i.t.remainder(x.t.size(0))}), x, "[", i, "]");
                   },
                   false});
  table.push_back({"tril",
                   [](Frame& f) {
                     const Operand x = f.floating(2);
                     f.put(x.t.tril(), "tril(", x, ")");
                   },
                   false});
  table.push_back({"pad",
                   [](Frame& f) {
                     const Operand x = f.floating(1, 3);
                     f.put(at::constant_pad_nd(x.t, {1, 0}, 0.5), "pad(", x, ")");
                   },
                   false});
}

}  // namespace reprise::fuzz
