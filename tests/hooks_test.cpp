// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include <ATen/SavedTensorHooks.h>
#include <ATen/ThreadLocalState.h>

#include "tests/support.h"

namespace reprise::testing {
namespace {

TEST(Hooks, PackAndUnpackAreCalledForEverySavedTensor) {
  const Tensor x = leaf({4});
  int packed = 0, unpacked = 0;
  Tensor y;
  {
    const SavedTensorHooks hooks(
        [&](const Tensor& t) {
          ++packed;
          return std::make_pair(t.detach().clone(), 3);
        },
        [&](const std::pair<Tensor, int>& kept) {
          ++unpacked;
          EXPECT_EQ(kept.second, 3);
          return kept.first;
        });
    y = x.exp().sin().sum();
  }
  const Tensor outside = x.cos().sum();
  EXPECT_EQ(packed, 2);
  (y + outside).backward();
  EXPECT_EQ(unpacked, 2);
  EXPECT_TRUE(
      same_bits({x.grad()}, torch::autograd::grad({x.exp().sin().sum() + x.cos().sum()}, {x})));
}

TEST(Hooks, OnlyTheInnermostPairApplies) {
  const Tensor x = leaf({4});
  int outer = 0, inner = 0;
  const auto count = [](int& n) {
    return [&n](const Tensor& t) {
      ++n;
      return t.detach();
    };
  };
  const auto same = [](const Tensor& t) { return t; };
  const SavedTensorHooks outside(count(outer), same);
  {
    const SavedTensorHooks inside(count(inner), same);
    x.exp();
  }
  x.exp();
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 1);
}

TEST(Hooks, ExceptionsOfPackAndUnpackPropagateAndLeaveNoState) {
  const Tensor x = leaf({4});
  const auto same = [](const Tensor& t) { return t; };
  {
    const SavedTensorHooks hooks([](const Tensor&) -> Tensor { throw std::domain_error("pack"); },
                                 same);
    EXPECT_THROW(x.exp(), std::domain_error);
  }
  Tensor y;
  {
    const SavedTensorHooks hooks(
        [](const Tensor& t) { return t.detach(); },
        [](const Tensor&) -> Tensor { throw std::domain_error("unpack"); });
    y = x.exp();
  }
  EXPECT_THROW(y.sum().backward(), std::domain_error);
  EXPECT_NO_THROW(x.exp().sum().backward());
}

TEST(Hooks, FollowThreadLocalStateIntoOtherThreads) {
  const Tensor x = leaf({4});
  int packed = 0;
  const SavedTensorHooks hooks(
      [&](const Tensor& t) {
        ++packed;
        return t.detach();
      },
      [](const Tensor& t) { return t; });
  const at::ThreadLocalState state;
  std::thread([&] { x.exp(); }).join();
  EXPECT_EQ(packed, 0);
  std::thread([&] {
    const at::ThreadLocalStateGuard guard(state);
    x.exp();
  }).join();
  EXPECT_EQ(packed, 1);
}

TEST(Hooks, ObeyLibTorchsOwnSwitch) {
  at::SavedTensorDefaultHooks::disable("not here");
  const Tensor x = leaf({4});
  const auto message = message_of<Error>([&] { checkpoint([&](Tensor t) { return t.exp(); }, x); });
  EXPECT_NE(message.find("not here"), std::string::npos) << message;
  EXPECT_NE(message.find("\nhint: "), std::string::npos) << message;
  at::SavedTensorDefaultHooks::enable();
}

TEST(Hooks, AroundACheckpointSeeItsArgumentsAndInsideItWinOverIt) {
  const Tensor x = leaf({4});
  const auto f = [](const Tensor& t) { return t.sin().exp().cos(); };
  const auto plain = loss_and_gradients({x}, [&] { return f(x * 2).sum(); });
  int packed = 0;
  const auto pack = [&](const Tensor& t) {
    ++packed;
    return t.detach().clone();
  };
  const auto same = [](const Tensor& t) { return t; };
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({x}, [&] {
                          const Tensor h = x * 2;
                          const SavedTensorHooks hooks(pack, same);
                          return checkpoint(f, h).sum();
                        })));
  EXPECT_EQ(packed, 1);  // the argument, not the three tensors inside
  packed = 0;
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({x}, [&] {
                          return checkpoint(
                                     [&](const Tensor& t) {
                                       const SavedTensorHooks hooks(pack, same);
                                       return f(t);
                                     },
                                     x * 2)
                              .sum();
                        })));
  EXPECT_EQ(packed, 3);
}

TEST(Hooks, TheGraphDoesNotKeepThePackFunction) {
  const Tensor x = leaf({4});
  auto token = std::make_shared<int>(0);
  Tensor y;
  {
    const SavedTensorHooks hooks([token](const Tensor& t) { return t.detach(); },
                                 [](const Tensor& t) { return t; });
    y = x.exp();
    EXPECT_GT(token.use_count(), 1);
  }
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace reprise::testing
