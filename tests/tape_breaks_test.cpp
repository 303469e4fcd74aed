// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <thread>

#include "tests/support.h"
#include "tests/warnings.h"

// Programs that once went wrong under operator replay.

namespace reprise::testing {
namespace {

Policy drop_all() { return Policy::recompute_all().audit(false); }

CheckpointOptions on_tape() {
  return CheckpointOptions().replay(Replay::operators).policy(drop_all());
}

Tensor eye() { return at::eye(4); }

// ---- tensors without an ordinary storage: kept, not copied, so a change must be an error ----

TEST(Opaque, QuantisedTensorsThatChangeAfterTheyWereReadAreErrors) {
  const Tensor x = leaf({4, 4});
  const Tensor y = checkpoint(
      on_tape(),
      [](const Tensor& t) {
        Tensor q = at::quantize_per_tensor(eye(), 0.1, 0, at::kQInt8);
        const Tensor first = (q.dequantize() + t).sin();
        q.copy_(at::ones({4, 4}));
        return first * (q.dequantize() + t).cos();
      },
      x);
  const std::string message = message_of<Error>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("changed in place"), std::string::npos) << message;
}

TEST(Opaque, SoAreTheValuesOfSparseTensors) {
  const Tensor x = leaf({4, 4});
  for (const bool inside : {true, false}) {
    const Tensor sparse = eye().to_sparse();
    const Tensor y = checkpoint(
        on_tape(),
        [&](const Tensor& t) {
          const Tensor z = (sparse.to_dense() + t).sin();
          if (inside) sparse._values().mul_(3);
          return z;
        },
        x);
    if (!inside) sparse._values().mul_(3);
    EXPECT_THROW(y.sum().backward(), Error) << inside;
  }
}

TEST(Opaque, UnchangedOnesReplay) {
  const Tensor x = leaf({4, 4});
  const Tensor sparse = eye().to_sparse(), csr = eye().to_sparse_csr();
  const Tensor quantised = at::quantize_per_tensor(eye(), 0.1, 0, at::kQInt8);
  const auto f = [&](const Tensor& t) {
    return (sparse.to_dense() + t).sin() * (csr.to_dense() + t).cos() *
           (quantised.dequantize() + t).exp();
  };
  EXPECT_TRUE(
      same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                loss_and_gradients({x}, [&] { return checkpoint(on_tape(), f, x).sum(); })));
}

// ---- versions ----

TEST(WrittenBehind, ATensorMadeInInferenceModeIsCopiedAsItHasNone) {
  const Tensor w = leaf({4, 4});
  const auto gradient = [&](const std::function<Tensor(const Tensor&)>& run) {
    Tensor batch;
    {
      const c10::InferenceMode guard;
      batch = at::ones({4, 4});
    }
    const Tensor y = run(batch);
    {
      const c10::InferenceMode guard;
      batch.fill_(-3);  // the loader's next batch
    }
    return torch::autograd::grad({y.sum()}, {w})[0];
  };
  const auto f = [&](const Tensor& t) { return at::gelu(t + w); };
  const Tensor plain = gradient(f);
  EXPECT_TRUE(bit_equal(plain, gradient([&](const Tensor& t) { return checkpoint(f, t); })));
  EXPECT_TRUE(
      bit_equal(plain, gradient([&](const Tensor& t) { return checkpoint(on_tape(), f, t); })));
}

TEST(WrittenBehind, ALookThroughDataDoesNotHideLaterWrites) {
  const Tensor x = leaf({4}), bias = leaf({4}, 2);
  const Tensor y = checkpoint(
      on_tape(),
      [&](const Tensor& t) {
        const Tensor z = at::gelu(t + bias);
        bias.data().norm();  // an alias with a counter of its own
        return z;
      },
      x);
  {
    const torch::NoGradGuard guard;
    bias.mul_(3);
  }
  EXPECT_THROW(y.sum().backward(), Error);
}

TEST(WrittenBehind, SetToAnUnchangedTensorFromOutsideChangesNothing) {
  const Tensor x = leaf({4, 4}), b = at::ones({4, 4});
  const auto f = [&](const Tensor& t) {
    const Tensor y = (b + t).sin();
    Tensor d = at::empty({0});
    d.set_(b);
    return y * (d + t).cos();
  };
  EXPECT_TRUE(
      same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                loss_and_gradients({x}, [&] { return checkpoint(on_tape(), f, x).sum(); })));
}

// ---- rules that throw ----

TEST(ThrowingRules, LeaveNothingHalfMade) {
  const Tensor x = leaf({4, 4});
  const Policy collision = (Policy::keep_ops({"aten::fill_"}, Strength::must) |
                            Policy::recompute_ops({"aten::fill_"}, Strength::must))
                               .otherwise(Action::recompute)
                               .audit(false);
  int calls = 0;
  const Policy once = Policy::where(
                          [&](const ValueView& value) {
                            if (value.op == "aten::fill_" && calls++ == 0) {
                              throw std::runtime_error("no");
                            }
                            return false;
                          },
                          Action::keep, "throws once")
                          .otherwise(Action::recompute)
                          .audit(false);
  const auto run = [&](const std::optional<Policy>& policy) {
    std::optional<Scope> scope;
    if (policy) scope.emplace(*policy);
    Tensor b = at::zeros({4, 4}) + 1;
    try {
      b.fill_(3);
    } catch (const std::exception&) {
    }
    return (x * 2 + b).sin().sum();
  };
  const auto plain = loss_and_gradients({x}, [&] { return run(std::nullopt); });
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({x}, [&] { return run(collision); })));
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({x}, [&] { return run(once); })));
}

// ---- regions of functions under a scope ----

// Under a mode LibTorch reshapes by another operator: the replay must take the same way.
TEST(MixedRegions, AttentionInARegionOfAScopeEqualsPlain) {
  const Tensor q = leaf({2, 3, 4, 5});
  const auto attention = [](const Tensor& t) {
    const Tensor scores = t.sin().matmul(t.cos().transpose(-2, -1)).softmax(-1);
    return at::scaled_dot_product_attention(t, t, scores.matmul(t)) +
           at::einsum("bhij,bhjk->bhik", {scores, t});
  };
  const auto plain = loss_and_gradients({q}, [&] { return attention(q).sum(); });
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({q}, [&] {
                          const Scope scope(drop_all());
                          return checkpoint(attention, q).sum();
                        })));
  EXPECT_TRUE(same_bits(plain, loss_and_gradients({q}, [&] {
                          return checkpoint(
                                     on_tape(),
                                     [&](const Tensor& t) { return checkpoint(attention, t); }, q)
                              .sum();
                        })));
  EXPECT_TRUE(same_bits(
      plain, loss_and_gradients({q}, [&] {
        return checkpoint([&](const Tensor& t) { return checkpoint(on_tape(), attention, t); }, q)
            .sum();
      })));
}

// ---- threads ----

TEST(LockOrder, DrawingInAnInnerScopeWhileTheOuterOneIsWalked) {
  const Tensor x = leaf({8, 8}), w = leaf({8, 8}, 2);
  const Scope outer(drop_all());
  const Tensor y = at::dropout(x.mm(w).sin().exp(), 0.5, true).sin().sum();
  std::atomic<bool> done{false};
  std::thread walker([&] {
    for (int i = 0; i < 300; ++i) (void)torch::autograd::grad({y}, {x}, {}, true);
    done = true;
  });
  const auto draw = [](const Tensor& t) { return at::dropout(t, 0.5, true).sum(); };
  while (!done) {
    checkpoint(on_tape(), draw, x);
    checkpoint(draw, x);
    const Scope inner(drop_all());
    at::rand({4});
  }
  walker.join();
}

TEST(Scopes, EndInTheReverseOrderOfTheirBeginning) {
  Scope a(drop_all());
  Scope b(drop_all());
  EXPECT_THROW(a.end(), UsageError);
  b.end();
  EXPECT_NO_THROW(a.end());
}

// ---- warnings ----

constexpr int64_t kLarge = 1 << 19;

Tensor chain(Tensor x) {
  for (int i = 0; i < 4; ++i) x = x.sin().exp();
  return x;
}

TEST(Savings, TwoBatchesThroughOneRegionSaveSomething) {
  const Tensor x = leaf({kLarge}, 1), z = leaf({kLarge}, 2);
  Meter().reset_peak();
  const Warnings warnings;
  const auto region = [](const Tensor& t) {
    return checkpoint(CheckpointOptions().name("two batches"), chain, t).sum();
  };
  (region(x) + region(z)).backward();
  EXPECT_FALSE(warnings.mention("saves nothing")) << warnings.text();
}

TEST(Savings, ARegionThatWaitsWhileAnotherModelTrainsSavesSomething) {
  const Tensor x = leaf({kLarge}, 1), z = leaf({kLarge}, 2);
  Meter().reset_peak();
  const Warnings warnings;
  const Tensor y = checkpoint(CheckpointOptions().name("generator"), chain, x).sum();
  chain(z).sum().backward();
  y.backward();
  EXPECT_FALSE(warnings.mention("saves nothing")) << warnings.text();
}

}  // namespace
}  // namespace reprise::testing
