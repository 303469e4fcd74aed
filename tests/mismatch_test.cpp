// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support.h"

// A replay that does other work than the forward pass is an error that names the place.

namespace reprise::testing {
namespace {

/// The error of a backward pass through a region that behaves differently when it is run again.
std::string mismatch(const CheckpointOptions& options, const std::function<Tensor(Tensor)>& first,
                     const std::function<Tensor(Tensor)>& again) {
  const Tensor x = leaf({4, 8});
  int calls = 0;
  const Tensor y = checkpoint(
      options, [&](const Tensor& t) { return calls++ ? again(t) : first(t); }, x);
  return message_of<RecomputeMismatch>([&] { y.sum().backward(); });
}

TEST(Mismatch, FewerTensorsNamesTheRegionAndBothCounts) {
  const std::string message = mismatch(
      CheckpointOptions().name("block 3"), [](Tensor t) { return t.exp().sin().cos(); },
      [](Tensor t) { return t.exp().sin(); });
  EXPECT_NE(message.find("'block 3'"), std::string::npos) << message;
  EXPECT_NE(message.find("saved 3 tensors, the replay only 2"), std::string::npos) << message;
  EXPECT_NE(message.find("\nhint: "), std::string::npos) << message;
}

TEST(Mismatch, MoreTensorsIsAnErrorOnlyWhenTheReplayGoesToItsEnd) {
  const auto two = [](Tensor t) { return t.exp().sin(); };
  const auto three = [](Tensor t) { return t.exp().sin().cos(); };
  const std::string message = mismatch(CheckpointOptions().early_stop(false), two, three);
  EXPECT_NE(message.find("saved 2 tensors, the replay 3"), std::string::npos) << message;
  EXPECT_NE(message.find("region #"), std::string::npos) << message;

  const Tensor x = leaf({4});
  int calls = 0;
  const Tensor y = checkpoint([&](const Tensor& t) { return calls++ ? three(t) : two(t); }, x);
  EXPECT_TRUE(
      same_bits(torch::autograd::grad({y.sum()}, {x}), torch::autograd::grad({two(x).sum()}, {x})));
}

TEST(Mismatch, OtherShapeDtypeDeviceOrOperatorNamesIndexAndBoth) {
  const auto base = [](Tensor t) { return t.exp().sin(); };
  const std::string shape =
      mismatch({}, base, [](Tensor t) { return t.exp().slice(1, 0, 5).sin(); });
  EXPECT_NE(shape.find("saved tensor 1 was Float[4, 8] on cpu from ExpBackward0 in the forward "
                       "pass and is Float[4, 5] on cpu from SliceBackward0 in the replay"),
            std::string::npos)
      << shape;
  const std::string dtype =
      mismatch({}, base, [](Tensor t) { return t.to(at::kDouble).exp().sin(); });
  EXPECT_NE(dtype.find("saved tensor 0 was Float[4, 8]"), std::string::npos) << dtype;
  EXPECT_NE(dtype.find("is Double[4, 8]"), std::string::npos) << dtype;
  const std::string device = mismatch(CheckpointOptions().early_stop(false), base, [](Tensor t) {
    return at::empty(t.sizes(), at::kMeta).requires_grad_().exp().sin();
  });
  EXPECT_NE(device.find("on meta"), std::string::npos) << device;
  const std::string maker = mismatch({}, base, [](Tensor t) { return t.tanh().sin(); });
  EXPECT_NE(maker.find("from ExpBackward0 in the forward pass and is Float[4, 8] on cpu from "
                       "TanhBackward0"),
            std::string::npos)
      << maker;
}

TEST(Mismatch, DeterminismNoneLetsOtherMetadataPass) {
  const Tensor x = leaf({4});
  int calls = 0;
  const Tensor y = checkpoint(
      CheckpointOptions().determinism(Determinism::none),
      [&](const Tensor& t) { return calls++ ? t.to(at::kDouble).exp() : t.exp(); }, x);
  EXPECT_NO_THROW(y.sum().backward());
}

TEST(Mismatch, ShapeThatVariesOnlyAfterTheLastWantedTensorIsNoError) {
  const Tensor x = leaf({4});
  int calls = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& t) {
        const Tensor e = t.exp();
        return calls++ ? e.slice(0, 0, 1) + 1 : e + 1;
      },
      x);
  EXPECT_NO_THROW(y.sum().backward());
}

TEST(Mismatch, TheNextStepWorksAfterAnError) {
  const Tensor x = leaf({4});
  EXPECT_FALSE(mismatch(
                   {}, [](Tensor t) { return t.exp().sin(); }, [](Tensor t) { return t.exp(); })
                   .empty());
  const auto f = [](const Tensor& t) { return t.exp().sin(); };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                        loss_and_gradients({x}, [&] { return checkpoint(f, x).sum(); })));
}

}  // namespace
}  // namespace reprise::testing
