// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <reprise/equality.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "tape/current.h"
#include "tape/decider.h"

// Programs under the tape, with simple deciders: what they return against plain.

namespace reprise::detail {

using at::Tensor;
namespace nn = torch::nn;

class DropAll final : public Decider {
  Decision decide(const ValueInfo&) override { return Decision::recompute; }
  bool hold(const ValueInfo&) override { return false; }
};

class KeepOps final : public Decider {
 public:
  explicit KeepOps(std::vector<std::string> ops) : ops_(std::move(ops)) {}
  Decision decide(const ValueInfo&) override { return Decision::recompute; }
  bool hold(const ValueInfo& value) override {
    return std::find(ops_.begin(), ops_.end(), value.op) != ops_.end();
  }

 private:
  std::vector<std::string> ops_;
};

class Random final : public Decider {
 public:
  explicit Random(unsigned seed) : random_(seed) {}
  Decision decide(const ValueInfo&) override {
    return random_() % 2 ? Decision::recompute : Decision::keep;
  }
  bool hold(const ValueInfo&) override { return random_() % 4 == 0; }

 private:
  std::mt19937 random_;
};

using Scoped = std::function<void(const std::function<void()>&)>;
/// A program runs its forward pass inside the scope it is given, and returns what is to be
/// compared.
using Program = std::function<std::vector<Tensor>(const Scoped&)>;

inline std::vector<Tensor> run(const Program& program, const std::shared_ptr<Decider>& decider,
                               TapeCounts* counts = nullptr) {
  torch::manual_seed(11);
  std::shared_ptr<Tape> tape;
  auto results = program([&](const std::function<void()>& forward) {
    if (!decider) return forward();
    tape = std::make_shared<Tape>(decider);
    const Recording recording(tape);
    forward();
  });
  results.push_back(at::rand({2}));  // where the RNG stream stands
  if (counts && tape) *counts = tape->counts();
  return results;
}

inline void expect_same(const std::vector<Tensor>& plain, const std::vector<Tensor>& ours,
                        const std::string& what) {
  ASSERT_EQ(plain.size(), ours.size()) << what;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(bit_equal(plain[i], ours[i])) << what << ", result " << i;
  }
}

inline void check(const Program& program) {
  const auto plain = run(program, nullptr);
  expect_same(plain, run(program, std::make_shared<DropAll>()), "drop all");
  expect_same(plain,
              run(program, std::make_shared<KeepOps>(std::vector<std::string>{
                               "aten::mm", "aten::addmm", "aten::bmm", "aten::convolution",
                               "aten::native_batch_norm"})),
              "keep products");
  for (unsigned seed = 0; seed < 8; ++seed) {
    expect_same(plain, run(program, std::make_shared<Random>(seed)),
                "random " + std::to_string(seed));
  }
}

inline Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

/// Gradients of `leaves`, through a forward pass in the scope.
inline Program of(std::function<std::vector<Tensor>()> make,
                  std::function<Tensor(const std::vector<Tensor>&)> loss) {
  return [=](const Scoped& scoped) {
    const auto leaves = make();
    Tensor value;
    scoped([&] { value = loss(leaves); });
    auto grads = torch::autograd::grad({value}, leaves, {}, std::nullopt, false, true);
    grads.push_back(value.detach());
    for (const Tensor& leaf : leaves) grads.push_back(leaf.detach());
    return grads;
  };
}

// A kernel that writes past the dispatcher.
inline void fill_raw(const Tensor& t, float value) {
  std::fill_n(t.data_ptr<float>(), t.numel(), value);
}

}  // namespace reprise::detail
