// SPDX-License-Identifier: BSD-3-Clause
#include "frame.h"
#include "operators.h"

// Random draws, branches, custom functions, parts without grad.

namespace reprise::fuzz {
namespace {

/// Saves an input, an output and something in between, and shares work between them.
struct Blend : torch::autograd::Function<Blend> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, double factor) {
    const Tensor e = x.tanh();
    const Tensor y = e * x * factor;
    context->save_for_backward({x, e, y});
    context->saved_data["factor"] = factor;
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const double factor = context->saved_data["factor"].toDouble();
    const Tensor slope = saved[1] + saved[0] * (1 - saved[1] * saved[1]);
    return {grads[0] * slope * factor + saved[2] * 0, Tensor()};
  }
};

/// Writes in place to its input, and says so.
struct Halve : torch::autograd::Function<Halve> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x) {
    x.mul_(0.5);
    context->mark_dirty({x});
    return x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               torch::autograd::tensor_list grads) {
    return {grads[0] * 0.5};
  }
};

}  // namespace

void add_draws(Table& table) {
  table.push_back({"dropout",
                   [](Frame& f) {
                     const Operand x = f.floating(1);
                     f.put(at::dropout(x.t, 0.3, true), "dropout(", x, ")");
                   },
                   false});
  table.push_back({"alpha_dropout",
                   [](Frame& f) {
                     const Operand x = f.floating(2);
                     f.put(f.chance(50) ? at::alpha_dropout(x.t, 0.3, true)
                                        : at::feature_dropout(x.t, 0.3, true),
                           "alpha or feature dropout(", x, ")");
                   },
                   false});
  table.push_back({"rand_like", [](Frame& f) {
                     const Operand x = f.floating();
                     f.put(x.t * at::rand_like(x.t), x, " * rand_like");
                   }});
  table.push_back(
      {"randn", [](Frame& f) {
         const Tensor noise = f.chance(50) ? at::randn({4}) : at::randn({4}, f.generator);
         f.put(noise, "randn");
         const Operand x =
             f.pick([](const Tensor& t) { return is_real(t) && t.dim() >= 1 && t.size(-1) == 4; });
         f.put(x.t * noise.exp(), x, " * exp(randn)");
       }});
  table.push_back({"rrelu",
                   [](Frame& f) {
                     const Operand x = f.pick(is_single);
                     f.put(at::rrelu(x.t, 0.1, 0.4, true), "rrelu(", x, ")");
                   },
                   true, false});
  table.push_back({"bernoulli", [](Frame& f) {
                     const Operand x = f.floating();
                     const Tensor p = x.t.detach().sigmoid();
                     const Tensor drawn =
                         f.chance(50) ? at::bernoulli(p) : at::bernoulli(p, f.generator);
                     f.put(x.t * drawn, x, " * bernoulli");
                   }});
  table.push_back({"drawn in place", [](Frame& f) {
                     const Operand x = f.floating();
                     Tensor noise = at::empty_like(x.t.detach());
                     switch (f.below(4)) {
                       case 0:
                         noise.uniform_(-1, 1);
                         break;
                       case 1:
                         noise.normal_(0, 1, f.generator);
                         break;
                       case 2:
                         noise.exponential_(1).clamp_(0, 3);
                         break;
                       default:
                         noise.bernoulli_(0.4);
                         break;
                     }
                     f.put(x.t * noise, x, " * noise drawn in place");
                   }});
  table.push_back({"randperm",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return is_real(t) && t.dim() >= 1 && t.numel() > 0;
                     });
                     const Tensor order = f.chance(50) ? at::randperm(x.t.size(0))
                                                       : at::randperm(x.t.size(0), f.generator);
                     f.put(x.t.index({order}), x, "[randperm]");
                   },
                   false});
  table.push_back({"multinomial",
                   [](Frame& f) {
                     const Operand x = f.pick([](const Tensor& t) {
                       return is_single(t) && t.dim() == 2 && t.size(1) >= 2;
                     });
                     const Tensor p = x.t.detach().softmax(1);
                     const Tensor drawn =
                         f.chance(50) ? p.multinomial(2) : p.multinomial(2, false, f.generator);
                     f.put(x.t.gather(1, drawn), "gather(", x, ", multinomial)");
                     f.put(drawn, "the draws");
                   },
                   false});
  table.push_back({"normal",
                   [](Frame& f) {
                     const Operand x = f.floating();
                     f.put(at::normal(x.t.detach(), 0.5) + x.t, "normal around ", x);
                   },
                   false});
  table.push_back({"randint",
                   [](Frame& f) {
                     f.put(f.chance(50) ? at::randint(4, {3}) : at::randint(4, {3}, f.generator),
                           "randint");
                   },
                   false});
}

void add_control(Table& table) {
  table.push_back({"branch", [](Frame& f) {
                     const Operand x = f.floating();
                     if (x.t.sum().item<double>() > 0.3) {
                       f.put(x.t.sin(), "sum of ", x, " > 0.3: sin");
                     } else {
                       f.put(x.t.exp().neg(), "sum of ", x, " <= 0.3: -exp");
                     }
                   }});
  table.push_back({"loop", [](Frame& f) {
                     const Operand x = f.floating();
                     Tensor y = x.t;
                     int n = 0;
                     do {
                       y = y.sin() * 0.7 + x.t * 0.1;
                     } while (++n < 5 && y.abs().max().item<double>() > 0.4);
                     f.put(y, n, " rounds of sin from ", x);
                   }});
  table.push_back({"custom function",
                   [](Frame& f) {
                     const Operand x = f.floating();
                     f.put(Blend::apply(x.t, f.number()), "Blend(", x, ")");
                   },
                   true, true});
  table.push_back({"custom function in place",
                   [](Frame& f) {
                     const Operand x = f.writable([](const Tensor& t) {
                       return is_real(t) && t.numel() > 0 && !t.is_view();
                     });
                     f.put(Halve::apply(x.t), "Halve(", x, ")");
                   },
                   false});
  table.push_back({"detach",
                   [](Frame& f) {
                     const Operand x = f.any();
                     f.put(x.t.detach(), x, ".detach()");
                   },
                   false});
  table.push_back({"part without grad", [](Frame& f) {
                     const Operand x = f.floating();
                     Tensor scale;
                     {
                       const torch::NoGradGuard guard;
                       scale = x.t.exp().tanh().mean();
                     }
                     f.put(x.t.sin() * scale, "sin(", x, ") * mean(tanh(exp(", x,
                           "))) without grad");
                   }});
  table.push_back({"used many times", [](Frame& f) {
                     const Operand x = f.floating();
                     f.put(x.t.sin() * x.t.cos() + x.t.tanh() * x.t - x.t.square() * x.t.sigmoid(),
                           "six uses of ", x);
                   }});
  table.push_back({"chain of temporaries", [](Frame& f) {
                     const Operand x = f.floating();
                     f.put(x.t.sin().exp().mul(x.t).tanh().cos().add(1).sqrt(), "chain from ", x);
                   }});
  table.push_back(
      {"grad inside", [](Frame& f) {
         const Operand x = f.pick(
             [](const Tensor& t) { return is_single(t) && t.requires_grad() && t.numel() > 0; });
         const Tensor y = x.t.sin().mul(x.t);
         const bool create = f.chance(50);
         const Tensor g = torch::autograd::grad({y.sum()}, {x.t}, {}, std::nullopt, create)[0];
         f.put(x.t * g.tanh(), x, " * tanh of a gradient", create ? ", differentiable" : "");
       }});
  table.push_back({"requires_grad_ inside",
                   [](Frame& f) {
                     const Operand x = f.floating();
                     const Tensor y = x.t.detach().clone().requires_grad_();
                     f.put(y.sin() * y + x.t * 0.5, "a new leaf from ", x);
                   },
                   false, false});
}

}  // namespace reprise::fuzz
