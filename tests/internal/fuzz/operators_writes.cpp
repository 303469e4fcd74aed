// SPDX-License-Identifier: BSD-3-Clause
#include "frame.h"
#include "operators.h"

// Writes: in place, into views, out= forms, to buffers.

namespace reprise::fuzz {
namespace {

bool can_write(const Tensor& t) { return is_real(t) && t.numel() > 0; }

/// Writes `what` in place, and puts what is written to into the pool again.
Operator in_place(const std::string& name, std::function<void(Frame&, Tensor&)> what,
                  bool saves_output = false) {
  return {name,
          [=](Frame& f) {
            Operand x = f.writable(can_write);
            f.saves_output(saves_output);
            what(f, x.t);
            f.put(x.t, name, "(", x, ")");
          },
          false, saves_output};
}

Operand like(Frame& f, const Tensor& t) {
  return f.pick([&](const Tensor& other) { return is_real(other) && other.sizes() == t.sizes(); });
}

}  // namespace

void add_writes(Table& table) {
  table.push_back(in_place("mul_ by a number", [](Frame& f, Tensor& x) { x.mul_(f.number()); }));
  table.push_back(in_place("add_ of itself", [](Frame&, Tensor& x) { x.add_(x); }));
  table.push_back(in_place(
      "relu_", [](Frame&, Tensor& x) { x.relu_(); }, true));
  table.push_back(in_place(
      "sigmoid_", [](Frame&, Tensor& x) { x.sigmoid_(); }, true));
  table.push_back(in_place(
      "tanh_", [](Frame&, Tensor& x) { x.tanh_(); }, true));
  table.push_back(in_place("clamp_", [](Frame& f, Tensor& x) {
    const double c = f.number();
    x.clone().clamp_(-c, c);
    x.neg_();
  }));
  table.push_back(in_place("zero_ of a part", [](Frame&, Tensor& x) {
    if (x.dim() == 0) return void(x.zero_());
    x.slice(0, 0, (x.size(0) + 1) / 2).zero_();
  }));
  table.push_back(in_place("fill_", [](Frame& f, Tensor& x) { x.fill_(f.number()); }));
  table.push_back(in_place("copy_ of its transpose", [](Frame&, Tensor& x) {
    if (x.dim() != 2 || x.size(0) != x.size(1)) throw Refused("square");
    x.copy_(x.t().clone());
  }));
  table.push_back(in_place("copy_ of another part", [](Frame&, Tensor& x) {
    if (x.dim() == 0 || x.size(0) < 2) throw Refused("rows");
    x.select(0, 0).copy_(x.select(0, 1));
  }));
  table.push_back(in_place("index_fill_", [](Frame& f, Tensor& x) {
    if (x.dim() == 0 || x.size(0) != 4) throw Refused("rows");
    x.index_fill_(0, f.indices, 0.5);
  }));
  table.push_back(
      in_place("masked_fill_", [](Frame&, Tensor& x) { x.masked_fill_(x.detach() > 0.3, -0.5); }));
  table.push_back(in_place("index_put_", [](Frame& f, Tensor& x) {
    if (x.dim() == 0 || x.size(0) != 4) throw Refused("rows");
    x.index_put_({f.indices}, x.detach().select(0, 1) * 0.5, f.chance(50));
  }));
  table.push_back(in_place("scatter_", [](Frame& f, Tensor& x) {
    if (x.dim() != 1 || x.size(0) != 4) throw Refused("row");
    x.scatter_(0, f.indices, 0.75);
  }));
  table.push_back(in_place("div_ of a column", [](Frame&, Tensor& x) {
    if (x.dim() == 0) throw Refused("columns");
    x.select(-1, 0).div_(3);
  }));
  table.push_back(in_place("dropout_", [](Frame&, Tensor& x) { at::dropout_(x, 0.3, true); }));
  table.push_back({"add_",
                   [](Frame& f) {
                     Operand x = f.writable(can_write);
                     const Operand y = f.pick([&](const Tensor& t) {
                       return is_real(t) && t.dim() == x.t.dim() && t.sizes() == x.t.sizes();
                     });
                     x.t.add_(y.t, 0.5);
                     f.put(x.t, x, ".add_(", y, ", 0.5)");
                   },
                   false});
  table.push_back({"mul_", [](Frame& f) {
                     f.saves_inputs(false);
                     Operand x = f.writable(can_write);
                     f.saves_inputs(true);
                     f.saves_output(false);
                     const Operand y = like(f, x.t);
                     x.t.mul_(y.t.detach().clone());
                     f.put(x.t, x, ".mul_(", y, ")");
                   }});
  table.push_back({"copy_ into a view",
                   [](Frame& f) {
                     Operand x =
                         f.writable([](const Tensor& t) { return can_write(t) && t.dim() == 2; });
                     const Operand y = f.pick([&](const Tensor& t) {
                       return is_real(t) && t.dim() == 1 && t.size(0) == x.t.size(1);
                     });
                     x.t.select(0, 0).copy_(y.t);
                     f.put(x.t, x, "[0].copy_(", y, ")");
                   },
                   false});
  table.push_back(
      {"addmm_", [](Frame& f) {
         f.saves_inputs(false);
         Operand x = f.writable([](const Tensor& t) {
           return t.scalar_type() == at::kFloat && t.dim() == 2 && t.size(0) == 4 && t.size(1) == 4;
         });
         f.saves_inputs(true);
         f.saves_output(false);
         const Operand y = f.pick([](const Tensor& t) {
           return t.scalar_type() == at::kFloat && t.dim() == 2 && t.size(0) == 4 && t.size(1) == 4;
         });
         // Saved by its own node, a tensor keeps itself alive, in LibTorch too.
         if (x.t.is_alias_of(y.t)) throw Refused("other matrix");
         x.t.addmm_(y.t, y.t.clone(), 0.5, 0.2);
         f.put(x.t, x, ".addmm_(", y, ", ", y, ")");
       }});
  table.push_back({"foreach", [](Frame& f) {
                     f.saves_inputs(false);
                     f.saves_output(false);
                     Operand x = f.writable(can_write), y = f.writable(can_write);
                     std::vector<Tensor> both{x.t, y.t};
                     at::_foreach_mul_(both, 0.5);
                     f.put(x.t, "_foreach_mul_(", x, ", ", y, ")");
                   }});
  table.push_back({"out=", [](Frame& f) {
                     const Operand x = f.floating();
                     const torch::NoGradGuard guard;
                     Tensor out =
                         f.chance(50) ? at::empty({0}, x.t.options()) : at::empty_like(x.t);
                     switch (f.below(4)) {
                       case 0:
                         at::sin_out(out, x.t);
                         break;
                       case 1:
                         at::mul_out(out, x.t, x.t.detach());
                         break;
                       case 2:
                         at::add_out(out, x.t, x.t, 0.5);
                         break;
                       default:
                         at::cat_out(out, {x.t.reshape({-1}), x.t.reshape({-1})});
                         break;
                     }
                     f.put(out, "out= of ", x);
                   }});
  table.push_back({"out= of itself", [](Frame& f) {
                     f.saves_inputs(false);
                     const torch::NoGradGuard guard;
                     const Operand x = f.floating();
                     Tensor out = x.t.detach().clone();
                     at::sin_out(out, out);
                     at::mul_out(out, out, x.t.detach());
                     f.put(out, "sin_out and mul_out of ", x, " into itself");
                   }});
  table.push_back({"out= into a part", [](Frame& f) {
                     const torch::NoGradGuard guard;
                     const Operand x = f.floating(1, 2);
                     Tensor out = at::zeros_like(x.t);
                     Tensor part = out.select(0, 0);
                     at::cos_out(part, x.t.detach().select(0, x.t.size(0) - 1));
                     f.put(out, "cos_out of ", x, " into a part");
                   }});
  table.push_back({"buffer written",
                   [](Frame& f) {
                     const torch::NoGradGuard guard;
                     const Operand x = f.pick([](const Tensor& t) {
                       return t.scalar_type() == at::kFloat && t.dim() == 2 && t.size(0) == 4 &&
                              t.size(1) == 4;
                     });
                     switch (f.below(4)) {
                       case 0:
                         f.buffer.mul_(0.5).add_(x.t, 0.5);
                         break;
                       case 1:
                         f.buffer.copy_(x.t);
                         break;
                       case 2:
                         f.buffer.select(0, 1).zero_();
                         break;
                       default:
                         f.buffer.copy_(f.buffer.t().sin());
                         break;
                     }
                     f.say("buffer written from " + x.name);
                   },
                   false});
  table.push_back({"buffer read",
                   [](Frame& f) {
                     f.saves_inputs(false);
                     const Tensor was = f.buffer * 1.5;
                     f.put(was.exp().sin(), "sin(exp(buffer * 1.5))");
                   },
                   false});
  table.push_back({"data written",
                   [](Frame& f) {
                     const Operand x = f.writable(can_write);
                     Tensor data = x.t.variable_data();
                     data.mul_(0.5);
                     f.put(x.t, x, ".data.mul_(0.5)");
                   },
                   false});
  table.push_back({"detached and written",
                   [](Frame& f) {
                     const Operand x = f.writable(can_write);
                     x.t.detach().add_(0.25);
                     f.put(x.t, x, ".detach().add_(0.25)");
                   },
                   false});
  table.push_back({"resize_", [](Frame& f) {
                     const torch::NoGradGuard guard;
                     const Operand x = f.floating(1, 2);
                     Tensor y = x.t.detach().sin();
                     y.resize_({2, y.numel()});
                     y.select(0, 1).fill_(0.5);
                     f.put(y, "resize_ of sin(", x, "), filled");
                   }});
  table.push_back({"set_", [](Frame& f) {
                     const torch::NoGradGuard guard;
                     const Operand x = f.floating();
                     Tensor y = x.t.detach().cos(), z = at::zeros_like(y);
                     z.set_(y);
                     f.put(z, "set_ to cos(", x, ")");
                   }});
  table.push_back({"a write that raises",
                   [](Frame& f) {
                     Tensor x = f.chance(50) ? f.buffer : f.writable(can_write).t;
                     const torch::NoGradGuard guard;
                     bool raised = false;
                     try {
                       x.add_(at::ones({7, 5, 3}));
                     } catch (const c10::Error&) {
                       raised = true;
                     }
                     f.say(raised ? "a write raised" : "a write did not raise");
                   },
                   false});
}

}  // namespace reprise::fuzz
