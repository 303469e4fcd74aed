// SPDX-License-Identifier: BSD-3-Clause
#include "torch/in_place_backward.h"

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <reprise/budget.h>
#include <reprise/hooks.h>
#include <reprise/meter.h>

#include <torch/csrc/autograd/anomaly_mode.h>

#include "tests/support.h"
#include "tests/warnings.h"
#include "torch/dispatch_mode.h"
#include "torch/engine.h"

namespace reprise::detail {
namespace {

using at::Tensor;
using testing::same_bits;
using torch::autograd::variable_list;
using Tensors = std::vector<Tensor>;

const std::vector<at::ScalarType> kTypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
const std::vector<std::vector<int64_t>> kSizes{
    {},     {1},      {0},       {3, 0},      {7},          {1, 1},      {3, 5},
    {5, 3}, {64, 64}, {17, 513}, {2, 100003}, {2, 3, 4, 5}, {9, 33, 40}, {3, 1025, 2}};

/// Sees the addresses of one gradient before and after the derivative, and keeps neither.
class Probe {
 public:
  void watch(const Tensor& input, const Tensor& output) {
    output.register_hook([this](const Tensor& gradient) { before_ = gradient.data_ptr(); });
    input.register_hook([this](const Tensor& gradient) {
      ++passes_;
      in_place_ += before_ != nullptr && before_ == gradient.data_ptr();
    });
  }

  int passes() const { return passes_; }
  int in_place() const { return in_place_; }

 private:
  const void* before_ = nullptr;
  int passes_ = 0;
  int in_place_ = 0;
};

/// A program of which nobody can tell how its derivatives are computed.
using Program = std::function<Tensors(Probe&)>;

Probe expect_the_same(const Program& program) {
  ensure_engine();
  Probe off, on;
  const Tensors expected = program(off);
  const InPlaceBackward in_place;
  EXPECT_TRUE(same_bits(program(on), expected));
  EXPECT_EQ(off.in_place(), 0);
  EXPECT_EQ(on.passes(), off.passes());
  EXPECT_GT(on.passes(), 0);
  return on;
}

void expect_in_place(const Program& program) {
  const Probe probe = expect_the_same(program);
  EXPECT_EQ(probe.in_place(), probe.passes());
}

void expect_not_in_place(const Program& program) {
  EXPECT_EQ(expect_the_same(program).in_place(), 0);
}

struct Problem {
  explicit Problem(Probe& probe, at::IntArrayRef sizes = {33, 65}, uint64_t seed = 3)
      : x(testing::leaf(sizes, seed)),
        weights(testing::leaf(sizes, seed + 1).detach()),
        y(at::log_softmax(x, -1)) {
    probe.watch(x, y);
  }
  Tensor loss() const { return (y * weights).sum(); }

  Tensor x, weights, y;
};

// ---- The same bits.

TEST(InPlaceBackward, HasTheBitsOfEveryKernel) {
  for (const bool log : {true, false}) {
    for (const at::ScalarType type : kTypes) {
      for (const auto& sizes : kSizes) {
        const auto axes = std::max<int64_t>(1, static_cast<int64_t>(sizes.size()));
        for (int64_t dim = 0; dim < axes; ++dim) {
          SCOPED_TRACE(::testing::Message() << log << ' ' << type << ' ' << sizes << ' ' << dim);
          const auto program = [&](Probe& probe) -> Tensors {
            const Tensor x = testing::leaf(sizes).detach().to(type).mul_(8).requires_grad_();
            const Tensor weights = testing::leaf(sizes, 2).detach().to(type);
            const Tensor y = log ? at::log_softmax(x, dim) : at::softmax(x, dim);
            probe.watch(x, y);
            (y * weights).sum().backward();
            return {y.detach(), x.grad()};
          };
          if (c10::multiply_integers(sizes) > 0) {
            expect_in_place(program);
          } else {
            expect_not_in_place(program);
          }
        }
      }
    }
  }
}

TEST(InPlaceBackward, HasTheBitsOfInfinitiesAndNaN) {
  expect_in_place([](Probe& probe) -> Tensors {
    Tensor values = testing::leaf({32, 50}).detach();
    values.masked_fill_(values > 1, -INFINITY);
    values[3].fill_(-INFINITY);
    values[4][1] = INFINITY;
    const Tensor x = values.requires_grad_();
    const Tensor y = at::log_softmax(x, 1);
    probe.watch(x, y);
    (y * testing::leaf({32, 50}, 2).detach()).sum().backward();
    return {x.grad()};
  });
}

TEST(InPlaceBackward, ServesCrossEntropy) {
  for (const auto& [reduction, smoothing] :
       std::vector<std::pair<at::Reduction::Reduction, double>>{
           {at::Reduction::Mean, 0}, {at::Reduction::Sum, 0}, {at::Reduction::Mean, 0.1}}) {
    const Tensor x = testing::leaf({128, 517});
    const Tensor target = at::arange(128) * 4;
    const auto gradient = [&, reduction = reduction, smoothing = smoothing]() -> Tensors {
      x.mutable_grad() = Tensor();
      at::cross_entropy_loss(x * 2, target, {}, reduction, -100, smoothing).backward();
      return {x.grad()};
    };
    ensure_engine();
    const Tensors expected = gradient();
    const InPlaceBackward in_place;
    EXPECT_TRUE(same_bits(gradient(), expected));
  }
}

TEST(InPlaceBackward, GivesAResultLikeAnyOther) {
  expect_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    p.x.register_hook([](const Tensor& gradient) {
      EXPECT_EQ(gradient._version(), 0);
      EXPECT_FALSE(gradient.is_view());
      EXPECT_FALSE(gradient.requires_grad());
      EXPECT_EQ(gradient.storage().nbytes(), gradient.nbytes());
    });
    p.loss().backward();
    const Tensor gradient = p.x.grad().clone();
    p.x.grad().mul_(2);
    return {gradient, p.x.grad()};
  });
}

TEST(InPlaceBackward, ServesPassesOverAGraphThatIsKept) {
  expect_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    const Tensor loss = p.loss();
    loss.backward({}, /*retain_graph=*/true);
    const Tensor first = p.x.grad().clone();
    loss.backward();
    return {first, p.x.grad()};
  });
}

TEST(InPlaceBackward, ServesOtherThreadsAndPassesInsideOfPasses) {
  expect_in_place([](Probe& probe) -> Tensors {
    Tensors results;
    std::thread([&] {
      Probe inner;
      const Problem p(probe), q(inner, {5, 6}, 9);
      const Tensor loss = q.loss();
      p.y.register_hook([&](const Tensor&) { loss.backward(); });
      p.loss().backward();
      results = {p.x.grad(), q.x.grad()};
    }).join();
    return results;
  });
}

TEST(InPlaceBackward, ServesAnomalyMode) {
  const testing::Warnings slow;
  const torch::autograd::DetectAnomalyGuard guard;
  expect_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    p.loss().backward();
    return {p.x.grad()};
  });
}

// ---- Gradients that others have.

TEST(InPlaceBackward, LeavesAGradientThatAHookStored) {
  expect_not_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    Tensor held;
    p.y.register_hook([&](const Tensor& gradient) { held = gradient; });
    p.loss().backward();
    return {p.x.grad(), held};
  });
}

TEST(InPlaceBackward, LeavesAGradientOfWhichAHookStoredAView) {
  expect_not_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    Tensor held;
    p.y.register_hook([&](const Tensor& gradient) { held = gradient.detach().narrow(1, 3, 4); });
    p.loss().backward();
    return {p.x.grad(), held};
  });
}

TEST(InPlaceBackward, LeavesAGradientThatIsWeaklyHeld) {
  expect_not_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe), q(probe);
    std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> tensor;
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;
    p.y.register_hook([&](const Tensor& g) { tensor.emplace(g.getIntrusivePtr()); });
    q.y.register_hook([&](const Tensor& g) { storage.emplace(g.storage().getWeakStorageImpl()); });
    p.loss().backward();
    q.loss().backward();
    return {p.x.grad(), q.x.grad()};
  });
}

TEST(InPlaceBackward, LeavesARetainedGradient) {
  expect_the_same([](Probe& probe) -> Tensors {  // of which LibTorch retains a copy
    const Problem p(probe);
    p.y.retain_grad();
    p.loss().backward();
    return {p.x.grad(), p.y.grad()};
  });
}

TEST(InPlaceBackward, LeavesACapturedGradient) {
  expect_not_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    return torch::autograd::grad({p.loss()}, {p.x, p.y});
  });
}

TEST(InPlaceBackward, LeavesTheCallersGradient) {
  expect_not_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    const Tensor gradient = p.weights.clone();
    p.y.backward(gradient);
    return {p.x.grad(), gradient};
  });
  expect_not_in_place([](Probe& probe) -> Tensors {  // and where the caller keeps no name for it
    const Problem p(probe);
    const variable_list gradients{p.weights.clone()};
    torch::autograd::backward({p.y}, gradients);
    return {p.x.grad(), gradients[0]};
  });
}

TEST(InPlaceBackward, LeavesAGradientOfTwoNodesToTheSecond) {
  Probe second;
  const Probe first = expect_the_same([&](Probe& probe) -> Tensors {
    const Problem p(second, {33, 65}, 3);
    const Problem q(probe, {33, 65}, 5);  // the newer node runs first
    ((p.y + q.y) * p.weights).sum().backward();
    return {p.x.grad(), q.x.grad()};
  });
  EXPECT_EQ(first.in_place(), 0);
  EXPECT_EQ(second.in_place(), 1);
}

struct KeepingPreHook final : torch::autograd::FunctionPreHook {
  explicit KeepingPreHook(Tensor& kept) : kept(kept) {}
  variable_list operator()(const variable_list& gradients) override {
    kept = gradients[0];
    return gradients;
  }
  Tensor& kept;
};

struct KeepingPostHook final : torch::autograd::FunctionPostHook {
  explicit KeepingPostHook(Tensor& kept) : kept(kept) {}
  variable_list operator()(const variable_list& outputs, const variable_list& inputs) override {
    kept = inputs[0].clone();
    return outputs;
  }
  Tensor& kept;
};

TEST(InPlaceBackward, LeavesAGradientThatTheNodesHooksSee) {
  for (const bool post : {false, true}) {
    expect_not_in_place([&](Probe& probe) -> Tensors {
      const Problem p(probe);
      Tensor kept;
      if (post) {
        p.y.grad_fn()->add_post_hook(std::make_unique<KeepingPostHook>(kept));
      } else {
        p.y.grad_fn()->add_pre_hook(std::make_unique<KeepingPreHook>(kept));
      }
      p.loss().backward();
      return {p.x.grad(), kept};
    });
  }
}

TEST(InPlaceBackward, LeavesADifferentiableGradient) {
  expect_the_same([](Probe& probe) -> Tensors {
    const Problem p(probe);
    const Tensor first =
        torch::autograd::grad({(p.y * p.y).sum()}, {p.x}, {}, {}, /*create_graph=*/true)[0];
    const Tensor value = first.detach().clone();
    EXPECT_EQ(probe.passes(), 1);
    EXPECT_EQ(probe.in_place(), 0);
    return {value, torch::autograd::grad({(first * first).sum()}, {p.x})[0]};
  });
}

/// The identity. Its derivative is whatever the test gives.
struct Given : torch::autograd::Function<Given> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input,
                        const std::function<Tensor(const Tensor&)>& gradient) {
    context->saved_data["gradient"] = reinterpret_cast<int64_t>(&gradient);
    return input.clone();
  }
  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto address = context->saved_data["gradient"].toInt();
    const auto& gradient = *reinterpret_cast<std::function<Tensor(const Tensor&)>*>(address);
    return {gradient(gradients[0]), Tensor()};
  }
};

TEST(InPlaceBackward, LeavesMemoryThatIsNotAllTheGradients) {
  std::vector<float> user(33 * 65);
  const std::vector<std::function<Tensor(const Tensor&)>> gradients{
      [&](const Tensor& g) {  // the user's own memory, to which there is no reference
        const Tensor tensor = at::from_blob(user.data(), {33, 65});
        tensor.copy_(g);
        return tensor;
      },
      // detach() lets go of what a view is a view of.
      [](const Tensor& g) {
        return at::cat({g, g}).slice(0, 0, 33).detach();
      },
      [](const Tensor& g) {
        return at::cat({g, g}).slice(0, 33, 66).detach();
      },
      [](const Tensor& g) {
        return at::empty_strided({33, 65}, {1, 33}).copy_(g);
      },
      [](const Tensor& g) {
        return g.sum().expand({33, 65}).detach();
      },
      [](const Tensor& g) { return at::_neg_view(g * -1).detach(); },
  };
  for (const auto& gradient : gradients) {
    expect_not_in_place([&](Probe& probe) -> Tensors {
      const Problem p(probe);
      (Given::apply(p.y, gradient) * p.weights).sum().backward();
      return {p.x.grad(), at::tensor(user)};
    });
  }
}

// ---- Calls of the operator by others than the node.

Tensor derivative_of(const Tensor& gradient, const Tensor& y) {
  return at::_log_softmax_backward_data(gradient, y, 1, y.scalar_type());
}

TEST(InPlaceBackward, LeavesWhatHooksAndFunctionsGiveToTheOperator) {
  expect_the_same([](Probe& probe) -> Tensors {
    const Problem p(probe);
    Tensor own, result;
    p.y.register_hook([&](const Tensor& gradient) {
      own = gradient * 1;
      result = derivative_of(own, p.y);
    });
    p.loss().backward();
    return {p.x.grad(), own, result};
  });
  expect_the_same([](Probe& probe) -> Tensors {
    const Problem p(probe);
    const std::function<Tensor(const Tensor&)> twice = [&](const Tensor& g) {
      return derivative_of(g, p.y) + g;
    };
    (Given::apply(p.y, twice) * p.weights).sum().backward();
    return {p.x.grad()};
  });
}

/// Calls the operator while the node is running.
struct Meddling final : PackedTensor {
  Meddling(const Tensor& tensor, Tensors& seen) : tensor(tensor.detach()), seen(seen) {}
  Tensor unpack() override {
    const Tensor own = tensor * 3;
    const Tensor result = derivative_of(own, tensor);
    seen.insert(seen.end(), {own, result});
    return tensor;
  }
  Tensor tensor;
  Tensors& seen;
};

TEST(InPlaceBackward, LeavesWhatUnpackingGivesToTheOperator) {
  expect_in_place([](Probe& probe) -> Tensors {
    Tensors seen;
    const auto pack = [&](const Tensor& tensor) {
      return std::make_shared<Meddling>(tensor, seen);
    };
    std::optional<HookScope> hooks(pack);
    const Problem p(probe);
    hooks.reset();
    p.loss().backward();
    seen.push_back(p.x.grad());
    return seen;
  });
}

struct SeeingMode final : DispatchMode {
  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) override {
    op.callBoxed(stack);
  }
};

TEST(InPlaceBackward, LeavesWhatAModeSees) {
  expect_not_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    SeeingMode mode;
    const DispatchModeScope scope(mode);
    p.loss().backward();
    return {p.x.grad()};
  });
}

Tensor twice_the_derivative(const Tensor& gradient, const Tensor& output, int64_t dim,
                            at::ScalarType) {
  return (gradient - output.exp() * gradient.sum(dim, true)) * 2;
}

TEST(InPlaceBackward, CallsAnothersKernel) {
  const testing::Warnings replaced;
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("_log_softmax_backward_data", TORCH_FN(twice_the_derivative));
  expect_not_in_place([](Probe& probe) -> Tensors {
    const Problem p(probe);
    p.loss().backward();
    return {p.x.grad()};
  });
}

// ---- Memory.

/// Bytes that a step of a classifier needs above those that are live before it.
int64_t peak_of_loss(const Tensor& x, const Tensor& target, Budget* budget = nullptr) {
  x.mutable_grad() = Tensor();
  Meter meter;
  meter.reset_peak();
  const int64_t before = meter.live();
  const auto loss = [&] { return at::cross_entropy_loss(x, target); };
  (budget != nullptr ? budget->forward(loss) : loss()).backward();
  return meter.peak() - before;
}

class InPlaceMemory : public ::testing::Test {
 protected:
  const Meter meter_;  // blocks from before it are not counted
  const Tensor x_ = testing::leaf({64, 5000});
  const Tensor target_ = at::arange(64);
  const int64_t bytes_ = static_cast<int64_t>(x_.nbytes());
};

// Then the peak stands at the derivative before it, with numbers of its own.
constexpr int64_t kNumbers = 64;

TEST_F(InPlaceMemory, OneTensorLessAtTheLoss) {
  ensure_engine();
  const int64_t plain = peak_of_loss(x_, target_);
  {
    const InPlaceBackward in_place, again;
    EXPECT_NEAR(peak_of_loss(x_, target_), plain - bytes_, kNumbers);
  }
  EXPECT_EQ(peak_of_loss(x_, target_), plain);
}

TEST_F(InPlaceMemory, UnderBudgetsAndNotOtherwise) {
  const int64_t plain = peak_of_loss(x_, target_);
  auto share = Budget::fraction(1);
  EXPECT_EQ(peak_of_loss(x_, target_, &share), plain);  // the measured step is plain
  EXPECT_EQ(share.summary().plain_peak, plain);
  EXPECT_NEAR(peak_of_loss(x_, target_, &share), plain - bytes_, kNumbers);
  EXPECT_EQ(peak_of_loss(x_, target_), plain);
  {
    Budget all(int64_t{1} << 33);
    EXPECT_NEAR(peak_of_loss(x_, target_, &all), plain - bytes_, kNumbers);
  }
  EXPECT_EQ(peak_of_loss(x_, target_), plain);
}

}  // namespace
}  // namespace reprise::detail
