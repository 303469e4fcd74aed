// SPDX-License-Identifier: BSD-3-Clause
#include "tests/random_program.h"

#include <random>
#include <utility>

#include <reprise/reprise.h>

#include <torch/torch.h>

#include "tests/ways.h"

namespace reprise::testing {
namespace {

using at::Tensor;

std::atomic<int64_t> regions_begun{0};

constexpr unsigned kSteps = 13;

/// Thrown by a region that fails, the same in every run.
class Doomed : public std::runtime_error {
  using runtime_error::runtime_error;
};

Policy policy(unsigned which) {
  if (which == 0) return Policy::recompute_all().audit(false);
  if (which == 1) return Policy::keep_ops({"aten::mm", "aten::sin", "aten::add_"}).audit(false);
  return Policy::where([](const ValueView& value) { return value.invocation % 2 == 0; },
                       Action::encode, "every second call")
      .audit(false);
}

Tensor written_to(const Tensor& a, const Tensor& b) {
  Tensor y = a.clone();
  y.select(0, 0).mul_(2);
  y.t().add_(b.t());
  return y.mul_(b.sigmoid());
}

Tensor unrecorded(const Tensor& a) {
  const torch::NoGradGuard no_grad;
  return a.sin().add_(1);
}

/// A gradient that is taken on the way.
Tensor slope(const Tensor& a) {
  const Tensor y = a.requires_grad() ? a : a.detach().requires_grad_();
  return torch::autograd::grad({y.sin().exp().sum()}, {y}, {}, /*retain_graph=*/true,
                               /*create_graph=*/true)[0];
}

}  // namespace

RandomProgram::RandomProgram(Tensor weight, Grammar grammar, FaultInjector* faults)
    : weight_(std::move(weight)), grammar_(grammar), faults_(faults) {}

int64_t RandomProgram::regions() { return regions_begun; }

std::vector<Tensor> RandomProgram::run(std::vector<Tensor> pool, unsigned seed, int depth) const {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<unsigned>(random() % n); };
  const unsigned steps = 2 + below(4);
  for (unsigned i = 0; i < steps; ++i) {
    if (faults_ != nullptr) faults_->step();
    const Tensor a = pool[below(pool.size())], b = pool[below(pool.size())];
    const unsigned which = below(depth > 0 ? kSteps + 5 : kSteps);
    if (which < kSteps) {
      pool.push_back(step(which, a, b));
      continue;
    }
    const unsigned region_seed = random();
    try {
      const std::vector<Tensor> results = region({a, b}, region_seed, depth - 1);
      pool.insert(pool.end(), results.begin(), results.end());
    } catch (const Doomed&) {
      pool.push_back(a - b);
    }
  }
  return {pool.back(), pool[below(pool.size())]};
}

Tensor RandomProgram::step(unsigned which, const Tensor& a, const Tensor& b) const {
  switch (which) {
    case 0:
      return a.sin().mul(b);
    case 1:
      return a.matmul(weight_).tanh();
    case 2:
      return at::dropout(a, 0.3, true).cos();
    case 3:
      return (a.t() * 2).t() + at::rand_like(b);
    case 4:
      return written_to(a, b);
    case 5:
      return a.detach().exp().tanh() * b;
    case 6:
      return unrecorded(a) * b;
    case 7:
      return std::get<0>(a.max(1, /*keepdim=*/true)) * b.softmax(1);
    case 8:
      return grammar_.inner_gradients ? slope(a) - b : a - b;
    case 9:
      return at::cat({a.slice(1, 0, 1), b.slice(1, 1)}, 1);
    case 10:
      return a.reshape({-1}).roll(1).view_as(a);
    case 11:
      return at::layer_norm(a, {a.size(1)});
    default:
      return (a + b).sin_();
  }
}

std::vector<Tensor> RandomProgram::region(std::vector<Tensor> arguments, unsigned seed,
                                          int depth) const {
  const bool doomed = grammar_.failures && seed % 8 == 0;
  const auto part = [self = *this, seed, depth, doomed](const std::vector<Tensor>& given) {
    std::vector<Tensor> results = self.run(given, seed, depth);
    if (doomed) throw Doomed("this region always fails");
    return results;
  };
  if (!grammar_.regions) return part(arguments);
  if (!is_recomputing()) ++regions_begun;
  auto way = static_cast<Way>(seed / 8 % 3);
  if (way == Way::whole_functions && !grammar_.whole_functions) way = Way::functions;
  CheckpointOptions options = options_of(way);
  if (way == Way::operators) options.policy(policy(seed / 24 % 3));
  return checkpoint(options, part, arguments);
}

}  // namespace reprise::testing
