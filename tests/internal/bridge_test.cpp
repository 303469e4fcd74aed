// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <thread>

#include <reprise/checkpoint.h>
#include <reprise/error.h>
#include <reprise/hooks.h>

#include <ATen/ThreadLocalState.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

#include "torch/backward_pass.h"
#include "torch/dispatch_mode.h"
#include "torch/engine.h"
#include "torch/operator_observer.h"
#include "torch/rng.h"
#include "torch/saved_tensor.h"

// The bridge to LibTorch, below the public API.

namespace reprise::detail {
namespace {

using at::Tensor;

/// Notes the operators it sees, and passes them on.
class Recorder final : public DispatchMode {
 public:
  explicit Recorder(std::vector<std::string>* log, std::string prefix = "")
      : log_(log), prefix_(std::move(prefix)) {}
  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) override {
    log_->push_back(prefix_ + op.schema().name());
    op.callBoxed(stack);
  }

 private:
  std::vector<std::string>* log_;
  std::string prefix_;
};

using Log = std::vector<std::string>;

TEST(DispatchMode, SeesOperatorsBelowAutogradAndChangesNothing) {
  const Tensor x = at::randn({4, 4}).requires_grad_();
  const Tensor plain = torch::autograd::grad({x.matmul(x).exp().sum()}, {x})[0];
  Log log;
  Recorder recorder(&log);
  Tensor loss;
  {
    const DispatchModeScope scope(recorder);
    loss = x.matmul(x).exp().sum();
  }
  EXPECT_EQ(log, (Log{"aten::mm", "aten::exp", "aten::sum"}));
  x.exp();
  EXPECT_EQ(log.size(), 3U);
  EXPECT_TRUE(at::equal(plain, torch::autograd::grad({loss}, {x})[0]));
}

TEST(DispatchMode, NestedModesEachSeeTheOperatorTheInnerOneFirst) {
  Log log;
  Recorder outer(&log, "outer "), inner(&log, "inner ");
  const Tensor x = at::ones({2});
  const DispatchModeScope outside(outer);
  {
    const DispatchModeScope inside(inner);
    x.exp();
  }
  x.sin();
  EXPECT_EQ(log, (Log{"inner aten::exp", "outer aten::exp", "outer aten::sin"}));
}

TEST(DispatchMode, SeesTheBackwardPassOfItsThread) {
  const Tensor x = at::randn({3, 3}).requires_grad_();
  const Tensor loss = x.sin().sum();
  Log log;
  Recorder recorder(&log);
  const DispatchModeScope scope(recorder);
  loss.backward();
  EXPECT_NE(std::find(log.begin(), log.end(), "aten::cos"), log.end());
}

class Thrower final : public DispatchMode {
  void dispatch(const c10::OperatorHandle&, torch::jit::Stack*) override {
    throw std::domain_error("no");
  }
};

TEST(DispatchMode, ExceptionLeavesTheStackOfModesAsItWas) {
  Log log;
  Recorder recorder(&log);
  Thrower thrower;
  const Tensor x = at::ones({2});
  const DispatchModeScope outside(recorder);
  {
    const DispatchModeScope inside(thrower);
    EXPECT_THROW(x.exp(), std::domain_error);
    EXPECT_THROW(x.exp(), std::domain_error);
  }
  x.exp();
  EXPECT_EQ(log, (Log{"aten::exp"}));
}

TEST(OperatorObserver, CountsOutermostCallsOnItsThread) {
  const Tensor x = at::ones({4, 4}).requires_grad_();
  x.exp();
  const OperatorObserver outer;
  at::linear(x, x).relu();  // linear calls t and addmm for itself
  {
    const OperatorObserver inner;
    x.sin();
    EXPECT_EQ(inner.count(), 1);
  }
  std::thread([&] { x.sin(); }).join();
  EXPECT_EQ(outer.count(), 3);
  EXPECT_FALSE(running_operator_fills_arguments());
}

/// For each tensor saved by `work`: whether its operator fills an argument meanwhile.
std::vector<bool> fills(const std::function<void()>& work) {
  std::vector<bool> result;
  const OperatorObserver observer;
  const SavedTensorHooks hooks(
      [&](const Tensor& t) {
        result.push_back(running_operator_fills_arguments());
        return t.detach();
      },
      [](const Tensor& t) { return t; });
  work();
  return result;
}

TEST(OperatorObserver, KnowsTheOperatorsThatFillTheirArguments) {
  const Tensor x = at::ones({4}).requires_grad_();
  EXPECT_EQ(fills([&] { at::rrelu(x, 0.1, 0.3, true); }), (std::vector<bool>{true, true}));
  EXPECT_EQ(fills([&] { x.exp(); }), (std::vector<bool>{false}));
  EXPECT_EQ(fills([&] { (x * 1).sigmoid_(); }), (std::vector<bool>{false}));  // its own self only
}

TEST(GraphTask, IsKnownInsideBackwardOnlyAndTellsWhenItEnds) {
  EXPECT_EQ(current_pass(), kNoPass);
  const Tensor x = at::ones({2}).requires_grad_();
  int64_t first = kNoPass, second = kNoPass;
  bool ended = false;
  const auto backward = [&](int64_t& task) {
    const Tensor y = x.exp();
    y.register_hook([&](const Tensor&) {
      task = current_pass();
      on_pass_end([&] { ended = true; });
      EXPECT_FALSE(ended);
    });
    y.sum().backward();
    EXPECT_TRUE(ended);
    ended = false;
  };
  backward(first);
  backward(second);
  EXPECT_NE(first, kNoPass);
  EXPECT_NE(first, second);
}

TEST(Rng, ReplayPlaysTheStreamAgainAndPutsItBack) {
  auto own = at::make_generator<at::CPUGeneratorImpl>(5);
  const RngState state = RngState::capture({own, own, at::Generator()});
  const Tensor first = at::rand({4}), first_own = at::rand({4}, own);
  Tensor again, again_own;
  {
    const RngReplay replay(state);
    again = at::rand({4});
    again_own = at::rand({4}, own);
  }
  const Tensor next = at::rand({4});
  EXPECT_TRUE(at::equal(first, again));
  EXPECT_TRUE(at::equal(first_own, again_own));
  state.restore();
  at::rand({4});
  EXPECT_TRUE(at::equal(next, at::rand({4})));
}

TEST(SavedTensor, ChecksVersionsAndKeepsUndefinedAndInferenceTensors) {
  EXPECT_FALSE(SavedTensor(Tensor()).unpack().defined());
  Tensor inference;
  {
    const c10::InferenceMode mode;
    inference = at::ones({2});
  }
  const SavedTensor copied(inference);  // it counts no versions
  {
    const c10::InferenceMode mode;
    inference.fill_(2);
  }
  EXPECT_TRUE(at::equal(copied.unpack(), at::ones({2})));
  const Tensor x = at::ones({2});
  const SavedTensor saved(x);
  const VersionStamp stamp(x);
  EXPECT_NO_THROW(stamp.check());
  x.add_(1);
  EXPECT_THROW(saved.unpack(), c10::Error);
  EXPECT_THROW(stamp.check(), c10::Error);
}

TEST(Engine, IsInstalledOnceFromManyThreadsBesideABackwardPass) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 50; ++k) {
        const Tensor x = at::ones({2}).requires_grad_();
        ensure_engine();
        x.exp().sum().backward();
        EXPECT_TRUE(x.grad().defined());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class OtherEngine final : public torch::autograd::Engine {
 public:
  static Engine& get() {
    static auto* const engine = new OtherEngine;
    return *engine;
  }
  ~OtherEngine() override { stop(); }
};

TEST(Engine, AnotherEngineThatReplacesOursIsAnErrorWithAHint) {
  ensure_engine();
  torch::autograd::Engine& ours = torch::autograd::Engine::get_default_engine();
  static std::atomic<torch::autograd::Engine*> before;
  before = &ours;
  torch::autograd::set_default_engine_stub(OtherEngine::get);
  try {
    checkpoint([](const Tensor& t) { return t.exp(); }, at::ones({2}).requires_grad_());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\nhint: "), std::string::npos);
  }
  torch::autograd::set_default_engine_stub(
      []() -> torch::autograd::Engine& { return *before.load(); });
  EXPECT_NO_THROW(ensure_engine());
}

}  // namespace
}  // namespace reprise::detail
