// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <torch/jit.h>

#include "tests/copy_store.h"
#include "tests/faulty_store.h"
#include "tests/store_support.h"
#include "tests/support.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

// What programs do that an offload might not survive. Everything that may go does: from the first
// byte on, to the last value.

namespace reprise::testing {
namespace {

using tests::CopyBackend;
using tests::faulty_store;
using torch::autograd::grad;

/// A scope that counts, in its end, what it has moved.
class Recorded {
 public:
  Recorded(const Policy& policy, int64_t& moved) : scope_(policy), moved_(moved) {}
  ~Recorded() {
    scope_.end();
    moved_ += scope_.summary().offload.moved;
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

 private:
  Scope scope_;
  int64_t& moved_;
};

/// Begins a scope; null where the program runs plainly.
using Begin = std::function<std::unique_ptr<Recorded>()>;
/// Runs forward passes in scopes, goes backward, and returns what is to be compared.
using Program = std::function<std::vector<Tensor>(const Begin&)>;

OffloadOptions everything() { return OffloadOptions().min_bytes(0).keep_last(0); }

class OffloadBreaks : public ::testing::Test {
 protected:
  OffloadBreaks() { torch::manual_seed(5); }

  /// Nothing may be left when the graph is gone.
  void TearDown() override {
    for (const Store& store : {copies, Store(disk)}) {
      EXPECT_TRUE(tests::soon([&] { return store.stats().blocks_held == 0; }));
    }
    EXPECT_EQ(copy_backend->written_to(), 0) << "memory was written to while it was being sent";
    EXPECT_EQ(folder.entries(), 0U);
    EXPECT_TRUE(tests::soon([&] { return Meter().live() == live; })) << Meter().live() - live;
  }

  std::vector<Tensor> run(const Program& program, const std::optional<Policy>& policy) {
    torch::manual_seed(7);
    moved = 0;
    std::vector<Tensor> results =
        program([&] { return policy ? std::make_unique<Recorded>(*policy, moved) : nullptr; });
    for (Tensor leaf : {x, w}) {
      results.push_back(leaf.grad());
      leaf.mutable_grad() = Tensor();
    }
    return results;
  }

  /// The same bits as plain, from several stores and with several options; values do move.
  void expect_same(const Program& program) {
    const auto plain = run(program, {});
    const std::vector<OffloadOptions> options{
        everything(), everything().on_failure(StoreFailure::recompute), everything().fetch_ahead(0),
        everything().fetch_ahead(kNoLimit)};
    for (const Store& store : {copies, Store(disk), Store(CompressedStore(disk))}) {
      for (std::size_t i = 0; i < options.size(); ++i) {
        SCOPED_TRACE(store.stats().path + ", options " + std::to_string(i));
        EXPECT_TRUE(same_bits(run(program, Policy::offload(store, options[i])), plain));
        EXPECT_GT(moved, 0);
      }
    }
  }

  /// A forward pass in one scope.
  static Program forward(const std::function<Tensor()>& loss) {
    return [=](const Begin& begin) {
      auto scope = begin();
      const Tensor value = loss();
      scope.reset();
      value.backward();
      return std::vector<Tensor>{value.detach()};
    };
  }

  Tensor chain() const { return (x.matmul(w).sin() * x.exp()).cos().matmul(w).tanh(); }

  const tests::TempFolder folder;
  const std::shared_ptr<CopyBackend> copy_backend = std::make_shared<CopyBackend>(1, /*late=*/300);
  const Store copies{copy_backend};
  const DiskStore disk{folder.path("")};
  const Tensor x = leaf({8, 8}, 2), w = leaf({8, 8}, 3);
  int64_t moved = 0;  // in the last run
  const int64_t live = Meter().live();
};

// --- faults --------------------------------------------------------------------------------------

// Once the scope's end has sent them, nobody must have forgotten how they are made.
TEST_F(OffloadBreaks, WhatTheEndOfTheScopeSendsCanBeMadeAgain) {
  const Warnings warnings;
  const Store broken = faulty_store(copies, 1, {.fetches = 1000});
  const auto options = everything().on_failure(StoreFailure::recompute);
  const auto plain = run(forward([&] { return chain().mean(); }), {});
  std::unique_ptr<Scope> scope;
  const Program program = [&](const Begin&) {
    scope = std::make_unique<Scope>(Policy::offload(broken, options));
    const Tensor loss = chain().mean();
    scope->end();
    loss.backward();
    return std::vector<Tensor>{loss.detach()};
  };
  EXPECT_TRUE(same_bits(run(program, {}), plain));
  EXPECT_GT(scope->summary().offload.recomputed, 0) << scope->summary().offload;
}

// An exception where a fetch begins, ahead of the need, must not leave an empty target.
TEST_F(OffloadBreaks, AStoreThatThrowsWhereItIsAskedToBegin) {
  const Warnings warnings;
  const Program program = forward([&] { return chain().mean(); });
  const auto plain = run(program, {});
  int64_t thrown = 0, right = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Store promptly(std::make_shared<CopyBackend>(1, /*late=*/0));
    const Store broken =
        faulty_store(promptly, seed, {.throwing_sends = 200, .throwing_fetches = 300, .full = 100});
    const auto failure = seed % 2 ? StoreFailure::recompute : StoreFailure::error;
    try {
      EXPECT_TRUE(same_bits(run(program, Policy::offload(broken, everything().on_failure(failure))),
                            plain));
      ++right;
    } catch (const StoreError&) {
      ++thrown;
      EXPECT_EQ(failure, StoreFailure::error);
    }
    for (Tensor leaf : {x, w}) leaf.mutable_grad() = Tensor();
  }
  EXPECT_GT(thrown, 10);
  EXPECT_GT(right, 30);
}

TEST_F(OffloadBreaks, AFolderThatVanishesDoesNoHarm) {
  const tests::TempFolder other;
  const std::string place = other.path("folder");
  std::filesystem::create_directory(place);
  const DiskStore store(place);
  std::filesystem::remove_all(place);
  const Program program = forward([&] { return chain().mean(); });
  EXPECT_TRUE(same_bits(run(program, Policy::offload(store, everything())), run(program, {})));
  EXPECT_EQ(store.stats().faults, 0);
}

TEST_F(OffloadBreaks, AStoreLivesAsLongAsItsBlocksDo) {
  const Program program = [&](const Begin& begin) {
    Tensor loss;
    const bool plain = begin() == nullptr;
    if (plain) {
      loss = chain().mean();
    } else {
      auto store = std::make_unique<DiskStore>(folder.path(""));
      auto policy = std::make_unique<Policy>(Policy::offload(*store, everything()));
      const Scope scope(*policy);
      store.reset();
      policy.reset();
      loss = chain().mean();
    }
    loss.backward();
    return std::vector<Tensor>{loss.detach()};
  };
  EXPECT_TRUE(same_bits(run(program, Policy::keep_all()), run(program, {})));
}

// --- what is moved -------------------------------------------------------------------------------

TEST_F(OffloadBreaks, AValueThatIsSavedTwiceGoes) {
  const auto fork = [&] {
    const Tensor y = x.sigmoid();
    const Tensor a = y.matmul(w), b = y.sin(), c = y.t() * w;  // y several times, and a view of it
    return (a + b + c).sum();
  };
  expect_same(forward(fork));
  Scope scope(Policy::offload(copies, everything()));
  const Tensor loss = fork();
  scope.end();
  EXPECT_EQ(scope.summary().offload.moved, 1) << scope.summary().offload;
  EXPECT_EQ(scope.summary().offload.skipped_alive, 0) << scope.summary().offload;
}

TEST_F(OffloadBreaks, OddViewsAndDtypesOfOneStorage) {
  expect_same(forward([&] {
    const Tensor z = at::complex(x.sin(), w.cos());
    const Tensor parts = at::view_as_real(z.conj().resolve_conj());
    const Tensor rolled = parts.select(2, 1).t() * parts.select(2, 0);
    const Tensor neg = at::imag(z.conj()) * rolled.exp();
    const Tensor half = (x.to(at::kBFloat16).sigmoid() * 2).sin();
    const Tensor chosen = at::where(half > 0, half, half.neg()).to(at::kFloat);
    const Tensor wide = chosen.select(1, 0).unsqueeze(1).expand({8, 8});
    const Tensor strided =
        chosen.as_strided({4, 4}, {8, 2}, 1).exp() * chosen.as_strided({4, 4}, {1, 8}, 3);
    return (neg * wide * wide.exp()).sum() + strided.sum() + (z * z.exp()).abs().mean();
  }));
}

TEST_F(OffloadBreaks, ZeroSizedTensors) {
  expect_same(forward([&] {
    const Tensor none = x.slice(0, 3, 3).exp();
    const Tensor nothing = none.matmul(w).sin() * none.sigmoid();
    return at::cat({nothing, chain()}).mean() + nothing.sum() + none.prod();
  }));
}

// Nothing is there to be sent.
TEST_F(OffloadBreaks, TensorsOnMeta) {
  Scope scope(Policy::offload(copies, everything()));
  const Tensor shape = at::empty({8, 8}, at::device(at::kMeta)).requires_grad_();
  const Tensor loss = shape.sin().exp().mean();
  scope.end();
  loss.backward();
  EXPECT_TRUE(shape.grad().is_meta());
  EXPECT_EQ(scope.summary().offload.moved, 0);
}

TEST_F(OffloadBreaks, SparseAndQuantisedTensorsPassBy) {
  expect_same(forward([&] {
    const Tensor some =
        at::sparse_coo_tensor(at::tensor({0, 3, 5, 1, 2, 7}, at::kLong).view({2, 3}),
                              at::tensor({1.F, 2.F, 3.F}), {8, 8});
    const Tensor rounded =
        at::quantize_per_tensor(x.detach().tanh(), 0.05, 3, at::kQInt8).dequantize();
    return (at::_sparse_mm(some, chain()).sin() * rounded.exp()).mean();
  }));
}

TEST_F(OffloadBreaks, ResizedAndReplacedStorages) {
  expect_same(forward([&] {
    Tensor a = x.sin();
    const Tensor b = a * w;  // saves a
    Tensor c = b.exp();      // saves its result
    const torch::NoGradGuard guard;
    Tensor room = b.detach().clone();
    room.resize_({3, 3}).fill_(2);
    room.set_(w.detach().clone());
    a.detach().data();  // looks, and changes nothing
    const c10::AutoGradMode on(true);
    return (c * room.mul_(2)).cos().mean();
  }));
}

// Autograd would not notice either, and takes what it finds.
TEST_F(OffloadBreaks, WritesThroughData) {
  expect_same(forward([&] {
    const Tensor a = x.sin();
    const Tensor b = a * w;  // saves a
    a.data().mul_(2);
    const Tensor c = b.exp();
    c.data().add_(1);
    return (c * b).cos().mean();
  }));
}

TEST_F(OffloadBreaks, WritesInPlaceThatAutogradRefuses) {
  const Program program = forward([&] {
    Tensor a = x.sin();
    const Tensor b = a * w;
    a.mul_(2);
    return b.mean();
  });
  EXPECT_THROW(run(program, {}), c10::Error);
  EXPECT_THROW(run(program, Policy::offload(copies, everything())), c10::Error);
}

// The scope is over, but the program still has the value: it was not sent, but kept.
TEST_F(OffloadBreaks, WritesThroughDataAfterTheScope) {
  const Program program = [&](const Begin& begin) {
    auto scope = begin();
    const Tensor a = x.sin();
    const Tensor loss = (a * w).exp().mean();
    scope.reset();
    a.data().mul_(2);
    loss.backward();
    return std::vector<Tensor>{loss.detach(), a.detach()};
  };
  expect_same(program);
}

TEST_F(OffloadBreaks, Autocast) {
  expect_same(forward([&] {
    const reprise::Autocast autocast(at::kCPU);
    const Tensor y = at::gelu(x.matmul(w)).matmul(w);
    return at::layer_norm(y.to(at::kFloat), {8}).square().mean();
  }));
}

TEST_F(OffloadBreaks, TorchScript) {
  const auto unit = torch::jit::compile(R"(
    def block(x, w):
        y = torch.sigmoid(torch.matmul(x, w))
        for i in range(3):
            y = torch.tanh(y * x) + torch.matmul(y, w)
        return torch.mean(y)
  )");
  const Program program = forward([&] { return unit->run_method("block", x, w).toTensor(); });
  for (int i = 0; i < 4; ++i) run(program, {});  // it is rewritten, to other bits, as it runs
  expect_same(program);
}

// --- ways to go backward -------------------------------------------------------------------------

TEST_F(OffloadBreaks, DoubleBackwardInAndAfterTheScope) {
  for (const bool inside : {false, true}) {
    SCOPED_TRACE(inside);
    expect_same([=, this](const Begin& begin) {
      auto scope = begin();
      const Tensor value = chain().mean();
      if (!inside) scope.reset();
      const auto first = grad({value}, {x, w}, {}, /*retain_graph=*/true, /*create_graph=*/true);
      const Tensor loss = value + first[0].square().sum() + (first[1].sin() * w).sum();
      scope.reset();
      loss.backward();
      return std::vector<Tensor>{value.detach(), first[0].detach(), first[1].detach()};
    });
  }
}

TEST_F(OffloadBreaks, GradientsOfPartsAndThenOfTheRest) {
  expect_same([this](const Begin& begin) {
    auto scope = begin();
    const Tensor y = chain(), z = y.exp().matmul(w).sin(), other = (x * w).sigmoid().mean();
    const Tensor loss = z.mean() + other;
    scope.reset();
    std::vector<Tensor> results = grad({z.mean()}, {y}, {}, /*retain_graph=*/true);
    results.push_back(grad({other}, {w}, {}, /*retain_graph=*/true)[0]);
    results.push_back(grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0]);
    loss.backward();
    return results;
  });
}

TEST_F(OffloadBreaks, AnExceptionInTheForwardPass) {
  const Program program = [this](const Begin& begin) {
    Tensor kept;
    try {
      auto scope = begin();
      kept = chain();
      const Tensor lost = kept.exp().matmul(w).sin();
      at::matmul(lost, at::zeros({3, 3}));
    } catch (const c10::Error&) {
    }
    kept.mean().backward();
    return std::vector<Tensor>{kept.detach()};
  };
  expect_same(program);
}

TEST_F(OffloadBreaks, AnExceptionInAHookOfTheBackwardPass) {
  expect_same([this](const Begin& begin) {
    auto scope = begin();
    const Tensor y = x.sin().matmul(w).exp(), z = y.cos().matmul(w).tanh();
    const Tensor loss = z.mean();
    scope.reset();
    bool fails = true;
    y.register_hook([&](const Tensor&) {
      if (std::exchange(fails, false)) throw std::runtime_error("this hook fails once");
    });
    EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), std::runtime_error);
    for (Tensor leaf : {x, w}) leaf.mutable_grad() = Tensor();
    loss.backward();
    return std::vector<Tensor>{loss.detach()};
  });
}

// The first step teaches an order that the second does not follow.
TEST_F(OffloadBreaks, ABackwardPassInAHookOfAnotherOverTheSameScope) {
  expect_same([&](const Begin& begin) {
    auto scope = begin();
    const Tensor middle = chain();
    const Tensor loss = middle.sin().matmul(w).square().mean();
    const Tensor other = (x * w).cos().exp().tanh().mean();
    scope.reset();
    middle.register_hook([&other](const Tensor&) { other.backward(); });
    loss.backward();
    return std::vector<Tensor>{loss.detach(), other.detach()};
  });
}

TEST_F(OffloadBreaks, AnotherOrderInEachStep) {
  expect_same([this](const Begin& begin) {
    std::vector<Tensor> results;
    for (int step = 0; step < 4; ++step) {
      auto scope = begin();
      const Tensor a = x.sin().exp().tanh().mean(), b = w.cos().sigmoid().exp().mean();
      const Tensor c = (x.sigmoid() * w).exp().mean();
      scope.reset();
      std::vector<Tensor> losses{a, b, c};
      for (std::size_t i = 0; i < losses.size(); ++i) {
        losses[(i + static_cast<std::size_t>(step)) % 3].backward();
      }
      if (step == 1) grad({(x.exp() * w).sum()}, {x});  // a pass between them
      results.push_back(a.detach());
    }
    return results;
  });
}

TEST_F(OffloadBreaks, ALossThatNobodyGoesBackwardFrom) {
  for (int step = 0; step < 3; ++step) {
    const Scope scope(Policy::offload(copies, everything()));
    const Tensor dropped = chain().mean();
  }
  {
    const Scope scope(Policy::offload(disk, everything()));
    const Tensor dropped = chain().mean();
  }
}

// --- several scopes ------------------------------------------------------------------------------

TEST_F(OffloadBreaks, ScopesOneAfterAnotherOnOneStore) {
  expect_same([this](const Begin& begin) {
    auto scope = begin();
    const Tensor first = chain();
    scope.reset();
    scope = begin();
    const Tensor second = (first.exp().matmul(w) * first).sin().mean();
    scope.reset();
    scope = begin();
    const Tensor third = (first * w).exp().cos().mean();
    scope.reset();
    third.backward({}, /*retain_graph=*/true);
    second.backward();
    return std::vector<Tensor>{first.detach(), second.detach(), third.detach()};
  });
}

TEST_F(OffloadBreaks, NestedScopesWithOtherStores) {
  const auto inner_policy = [&] { return Policy::offload(disk, everything().fetch_ahead(100)); };
  for (const bool inner_recomputes : {false, true}) {
    SCOPED_TRACE(inner_recomputes);
    expect_same([=, this](const Begin& begin) {
      auto outer = begin();
      const Tensor a = chain();
      std::unique_ptr<Scope> inner;
      if (outer) {
        inner = std::make_unique<Scope>(inner_recomputes ? Policy::recompute_all().audit(false)
                                                         : inner_policy());
      }
      const Tensor b = (a.exp().matmul(w) * a).sin();
      inner.reset();
      const Tensor loss = (b.exp() * a).mean();
      outer.reset();
      loss.backward();
      return std::vector<Tensor>{loss.detach()};
    });
  }
}

TEST_F(OffloadBreaks, ThreadsWithScopesOfTheirOwnOnOneStore) {
  const DiskStore small(folder.path(""), {.bytes_in_flight = 4096});
  const auto step = [](const Tensor& a, const Tensor& b) {
    return (a.matmul(b).sin() * a.exp()).cos().matmul(b).tanh().mean();
  };
  std::vector<std::vector<Tensor>> results(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const Tensor a = leaf({8, 8}, 10 + i), b = leaf({8, 8}, 20 + i);
      const Policy policy = Policy::offload(i % 2 ? Store(small) : copies, everything());
      for (int round = 0; round < 20; ++round) {
        Tensor loss;
        {
          const Scope scope(policy);
          loss = step(a, b);
        }
        results[i] = grad({loss}, {a, b});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor a = leaf({8, 8}, 10 + i), b = leaf({8, 8}, 20 + i);
    EXPECT_TRUE(same_bits(results[i], grad({step(a, b)}, {a, b}))) << i;
  }
}

// Forward here, backward there.
TEST_F(OffloadBreaks, ABackwardPassOnAnotherThread) {
  expect_same([this](const Begin& begin) {
    auto scope = begin();
    const Tensor loss = chain().mean();
    scope.reset();
    std::thread([&] { loss.backward(); }).join();
    return std::vector<Tensor>{loss.detach()};
  });
}

}  // namespace
}  // namespace reprise::testing
