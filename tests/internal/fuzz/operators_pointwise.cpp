// SPDX-License-Identifier: BSD-3-Clause
#include "frame.h"
#include "operators.h"

// One element at a time, and reductions.

namespace reprise::fuzz {
namespace {

using Unary = Tensor (*)(const Tensor&);
struct NamedUnary {
  const char* name;
  Unary call;
  bool saves_input = true;
  bool saves_output = false;
};

const NamedUnary kUnary[] = {
    {"sin", [](const Tensor& x) { return x.sin(); }},
    {"cos", [](const Tensor& x) { return x.cos(); }},
    {"exp", [](const Tensor& x) { return x.exp(); }, false, true},
    {"tanh", [](const Tensor& x) { return x.tanh(); }, false, true},
    {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }, false, true},
    {"relu", [](const Tensor& x) { return x.relu(); }, false, true},
    {"abs", [](const Tensor& x) { return x.abs(); }},
    {"neg", [](const Tensor& x) { return x.neg(); }, false},
    {"square", [](const Tensor& x) { return x.square(); }},
    {"erf", [](const Tensor& x) { return x.erf(); }},
    {"atan", [](const Tensor& x) { return x.atan(); }},
    {"sgn", [](const Tensor& x) { return x.sgn(); }, false, true},
    {"floor", [](const Tensor& x) { return x.floor(); }, false},
    {"softplus", [](const Tensor& x) { return at::softplus(x); }},
    {"gelu", [](const Tensor& x) { return at::gelu(x); }},
    {"silu", [](const Tensor& x) { return at::silu(x); }},
    {"mish", [](const Tensor& x) { return at::mish(x); }},
    {"elu", [](const Tensor& x) { return at::elu(x); }, true, true},
    {"selu", [](const Tensor& x) { return at::selu(x); }, true, true},
    {"leaky_relu", [](const Tensor& x) { return at::leaky_relu(x, 0.1); }},
    {"hardtanh", [](const Tensor& x) { return at::hardtanh(x); }},
    {"hardswish", [](const Tensor& x) { return at::hardswish(x); }},
    {"log_sigmoid", [](const Tensor& x) { return at::log_sigmoid(x); }},
    {"sqrt of squares", [](const Tensor& x) { return (x.square() + 0.5).sqrt(); }},
    {"rsqrt of squares", [](const Tensor& x) { return (x.square() + 0.5).rsqrt(); }},
    {"log1p of abs", [](const Tensor& x) { return x.abs().log1p(); }},
    {"reciprocal", [](const Tensor& x) { return (x.square() + 1).reciprocal(); }},
    {"nan_to_num", [](const Tensor& x) { return at::nan_to_num(x); }},
};

using Binary = Tensor (*)(const Tensor&, const Tensor&);
struct NamedBinary {
  const char* name;
  Binary call;
  bool saves_input = true;
};
const NamedBinary kBinary[] = {
    {"add", [](const Tensor& x, const Tensor& y) { return x + y; }, false},
    {"sub", [](const Tensor& x, const Tensor& y) { return at::sub(x, y, 0.5); }, false},
    {"mul", [](const Tensor& x, const Tensor& y) { return x * y; }},
    {"div", [](const Tensor& x, const Tensor& y) { return x / (y.square() + 1); }},
    {"maximum", [](const Tensor& x, const Tensor& y) { return at::maximum(x, y); }},
    {"minimum", [](const Tensor& x, const Tensor& y) { return at::minimum(x, y); }},
    {"atan2", [](const Tensor& x, const Tensor& y) { return at::atan2(x, y); }},
    {"hypot", [](const Tensor& x, const Tensor& y) { return at::hypot(x, y); }},
    {"logaddexp", [](const Tensor& x, const Tensor& y) { return at::logaddexp(x, y); }},
    {"where", [](const Tensor& x, const Tensor& y) { return at::where(x > y, x, y.sin()); }},
    {"lerp",
     [](const Tensor& x, const Tensor& y) { return at::lerp(x, y.to(x.scalar_type()), 0.3); },
     false},
    {"xlogy", [](const Tensor& x, const Tensor& y) { return at::xlogy(x, y.square() + 0.1); }},
};

bool broadcast(const Tensor& x, const Tensor& y) {
  for (int64_t i = 1; i <= std::min(x.dim(), y.dim()); ++i) {
    if (x.size(-i) != y.size(-i) && x.size(-i) != 1 && y.size(-i) != 1) return false;
  }
  return true;
}

}  // namespace

void add_pointwise(Table& table) {
  for (const NamedUnary& op : kUnary) {
    table.push_back({op.name,
                     [&op](Frame& f) {
                       const Operand x = f.floating();
                       f.put(op.call(x.t), op.name, "(", x, ")");
                     },
                     op.saves_input, op.saves_output});
  }
  for (const NamedBinary& op : kBinary) {
    table.push_back({op.name,
                     [&op](Frame& f) {
                       const Operand x = f.floating();
                       const Operand y =
                           f.pick([&](const Tensor& t) { return is_real(t) && broadcast(x.t, t); });
                       f.put(op.call(x.t, y.t), op.name, "(", x, ", ", y, ")");
                     },
                     op.saves_input});
  }
  table.push_back({"scalars",
                   [](Frame& f) {
                     const Operand x = f.floating();
                     const double c = f.number();
                     switch (f.below(5)) {
                       case 0:
                         return f.put(x.t * c, x, " * ", c);
                       case 1:
                         return f.put(c - x.t, c, " - ", x);
                       case 2:
                         return f.put(x.t / c, x, " / ", c);
                       case 3:
                         return f.put(x.t * at::scalar_tensor(c, at::kDouble), x, " * scalar ", c);
                       default:
                         return f.put(at::rsub(x.t, c), "rsub(", x, ", ", c, ")");
                     }
                   },
                   false});
  table.push_back({"pow", [](Frame& f) {
                     const Operand x = f.floating();
                     const int64_t n = 2 + f.below(2);
                     f.put(x.t.pow(n), "pow(", x, ", ", n, ")");
                   }});
  table.push_back({"clamp", [](Frame& f) {
                     const Operand x = f.floating();
                     const double c = f.number();
                     f.put(x.t.clamp(-c, c), "clamp(", x, ", ", c, ")");
                   }});
  table.push_back({"addcmul", [](Frame& f) {
                     const Operand x = f.floating(), y = f.pick([&](const Tensor&t) {
                       return t.scalar_type() == x.t.scalar_type() && broadcast(x.t, t);
                     });
                     f.put(at::addcmul(x.t, y.t, x.t, 0.5), "addcmul(", x, ", ", y, ", ", x, ")");
                   }});
}

void add_reductions(Table& table) {
  table.push_back({"sum",
                   [](Frame& f) {
                     const Operand x = f.floating();
                     if (f.chance(30) || x.t.dim() == 0) return f.put(x.t.sum(), "sum(", x, ")");
                     const int64_t d = f.dim_of(x.t);
                     const bool keep = f.chance(50);
                     f.put(x.t.sum({d}, keep), "sum(", x, ", ", d, ", ", keep, ")");
                   },
                   false});
  table.push_back({"mean",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.mean({d}, true), "mean(", x, ", ", d, ", keepdim)");
                   },
                   false});
  table.push_back({"prod",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.prod(d), "prod(", x, ", ", d, ")");
                   },
                   true, true});
  table.push_back({"amax",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.amax({d}, true), "amax(", x, ", ", d, ")");
                   },
                   true, true});
  table.push_back({"max with indices",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     const auto [values, where] = x.t.max(d);
                     f.put(values, "max(", x, ", ", d, ")");
                     f.saves_output(true);
                     f.put(where, "its indices");
                   },
                   false});
  table.push_back({"var_mean", [](Frame& f) {
                     const Operand x = f.single(2);
                     const auto [var, mean] = at::var_mean(x.t, 1);
                     f.put(var, "var of var_mean(", x, ")");
                     f.put(mean, "its mean");
                   }});
  table.push_back({"std",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     f.put((x.t + 0.01 * x.t.detach().square()).std(), "std(", x, ")");
                   },
                   true, true});
  table.push_back({"norm",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.norm(2, d), "norm(", x, ", ", d, ")");
                   },
                   true, true});
  table.push_back({"logsumexp",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.logsumexp(d), "logsumexp(", x, ", ", d, ")");
                   },
                   true, true});
  table.push_back({"softmax",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.softmax(d), "softmax(", x, ", ", d, ")");
                   },
                   false, true});
  table.push_back({"log_softmax",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.log_softmax(d), "log_softmax(", x, ", ", d, ")");
                   },
                   false, true});
  table.push_back({"cumsum",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.cumsum(d), "cumsum(", x, ", ", d, ")");
                   },
                   false});
  table.push_back({"cumprod",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     f.put(x.t.cumprod(d), "cumprod(", x, ", ", d, ")");
                   },
                   true, true});
  table.push_back({"sort",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const int64_t d = f.dim_of(x.t);
                     const auto [values, order] = x.t.sort(d, f.chance(50));
                     f.put(values, "sort(", x, ", ", d, ")");
                     f.saves_output(true);
                     f.put(order, "its order");
                   },
                   false});
  table.push_back({"topk",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     const auto [values, where] = x.t.topk(1 + f.below(x.t.size(-1)));
                     f.put(values, "topk(", x, ")");
                     f.saves_output(true);
                     f.put(where, "its indices");
                   },
                   false});
}

}  // namespace reprise::fuzz
