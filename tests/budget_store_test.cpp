// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include <reprise/budget.h>
#include <reprise/trace_step.h>

#include "tests/budget_models.h"
#include "tests/faulty_store.h"
#include "tests/support.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

// Budgets with a store: their plans send values away where that is less work than a replay.

namespace reprise::testing {
namespace {

using tests::faulty_store;
using tests::FaultyStoreRates;

/// Says nothing of the processor time that it takes, so that it costs the step nothing.
class QuietBackend : public StoreBackend {
 public:
  explicit QuietBackend(Store real) : real_(std::move(real)) {}

  std::unique_ptr<StoredBlock> send(Payload payload) override {
    return real_.backend()->send(std::move(payload));
  }
  StoreStats stats() const override {
    StoreStats stats = real_.stats();
    stats.processor_ms = 0;
    return stats;
  }
  int64_t room() const override { return real_.room(); }

 private:
  const Store real_;
};

Store memory_store() {
  HostOptions options;
  options.allocate = [](int64_t bytes) {
    return std::shared_ptr<void>(std::aligned_alloc(64, static_cast<std::size_t>(bytes)),
                                 &std::free);
  };
  return HostStore(int64_t{512} << 20, options);
}

/// As fast as can be, so that plans use it.
Store fast_store() { return Store(std::make_shared<QuietBackend>(memory_store())); }

class BudgetWithAStore : public ::testing::Test {
 protected:
  BudgetWithAStore() {
    torch::manual_seed(1);
    model = attention();
    plain_peak = plain_peak_of(model);
    plain = step_of(model, nullptr);
  }

  /// Steps until a plan that sends is followed; each within the budget and equal to plain. False
  /// if none ever was.
  bool train(Budget& budget, int64_t bytes, int steps) {
    for (int i = 0; i < steps; ++i) {
      int64_t peak = 0;
      EXPECT_TRUE(same_bits(step_of(model, &budget, &peak), plain)) << i;
      EXPECT_LE(peak, bytes) << i;
      budget.finish_planning();
    }
    return budget.summary().offloaded_bytes > 0;
  }

  /// As a budget with a store has made it.
  Plan plan_that_sends(int64_t bytes) {
    auto budget = Budget::activations(bytes);
    budget.into(fast_store());
    EXPECT_TRUE(train(budget, bytes, 6));
    Plan plan = budget.followed().value();
    EXPECT_TRUE(plan.sends());
    return plan;
  }

  BudgetModel model;
  int64_t plain_peak = 0;
  std::vector<Tensor> plain;
};

TEST_F(BudgetWithAStore, FollowsPlansThatSend) {
  int sending = 0;
  for (const double share : {0.8, 0.6, 0.5, 0.4}) {
    SCOPED_TRACE(share);
    const int64_t bytes = share_of(plain_peak, share);
    const int64_t base = Meter().live();
    {
      auto budget = Budget::activations(bytes);
      const Store store = fast_store();
      budget.into(store);
      sending += train(budget, bytes, 6);
      const BudgetSummary summary = budget.summary();
      EXPECT_GT(summary.planned_steps, 0) << summary;
      EXPECT_EQ(store.stats().blocks_held, 0);
      std::cout << summary;
    }
    EXPECT_EQ(Meter().live(), base);
  }
  EXPECT_GE(sending, 3);
}

// ---- Plans that were made before.

TEST_F(BudgetWithAStore, FollowsPlansThatWereMadeBeforeAndSend) {
  const int64_t bytes = share_of(plain_peak, 0.5);
  const Plan made = plan_from_json(to_json(plan_that_sends(bytes)));
  ASSERT_TRUE(made.sends());
  auto second = Budget::activations(bytes);
  second.follow(made);
  second.into(fast_store());
  for (int i = 0; i < 2; ++i) {
    int64_t peak = 0;
    EXPECT_TRUE(same_bits(step_of(model, &second, &peak), plain)) << i;
    EXPECT_LE(peak, bytes) << i;
    EXPECT_EQ(second.summary().plans, 0) << i;
  }
  ASSERT_TRUE(second.followed());
  EXPECT_EQ(second.followed()->decisions, made.decisions);
  EXPECT_GT(second.summary().offloaded_bytes, 0);
}

TEST_F(BudgetWithAStore, FollowsThePlanOfATracedStepFromTheFirstStepOn) {
  const Store store = fast_store();
  TracedStep step = trace_step(model.loss, {.begin = [&] {
                                 torch::manual_seed(5);
                                 take_gradients(model.parameters);
                               }});
  take_gradients(model.parameters);
  step.trace.store = trace_store(store);
  const int64_t bytes = share_of(plain_peak, 0.5);
  const Plan made = plan(step.trace, bytes);
  ASSERT_TRUE(made.sends());
  plain = step_of(model, nullptr);  // batch norms have gone on
  auto budget = Budget::activations(bytes);
  EXPECT_THROW(budget.follow(step, made), UsageError);
  budget.into(store);
  budget.follow(step, made);
  for (int i = 1; i <= 2; ++i) {
    int64_t peak = 0;
    EXPECT_TRUE(same_bits(step_of(model, &budget, &peak), plain)) << i;
    EXPECT_LE(peak, bytes) << i;
    EXPECT_EQ(budget.summary().planned_steps, i) << budget.summary();
  }
  EXPECT_GT(budget.summary().offloaded_bytes, 0);
}

// Whoever gives no store gets a plan without.
TEST_F(BudgetWithAStore, APlanThatSendsIsNotFollowedWithoutOne) {
  const int64_t bytes = share_of(plain_peak, 0.5);
  auto second = Budget::activations(bytes);
  second.follow(plan_that_sends(bytes));
  EXPECT_FALSE(train(second, bytes, 3));
  ASSERT_TRUE(second.followed());
  EXPECT_FALSE(second.followed()->sends());
}

// ---- What plans know of the store.

TEST(TraceStore, MeasuresWhatPlansNeedToKnow) {
  const tests::TempFolder folder;
  for (const Store& store : {Store(DiskStore(folder.path(""))), memory_store()}) {
    const TracedStore traced = trace_store(store);
    EXPECT_GT(traced.send_bytes_per_us, 0);
    EXPECT_GT(traced.fetch_bytes_per_us, 0);
    EXPECT_GT(traced.latency_us, 0);
    EXPECT_GT(traced.least_bytes, 0);
    EXPECT_GE(traced.work_us_per_byte, 0);
    EXPECT_EQ(store.stats().blocks_held, 0);
  }
}

TEST(TraceStore, OfAStoreThatFailsIsAnError) {
  EXPECT_THROW(trace_store(faulty_store(memory_store(), 1, FaultyStoreRates{.fetches = 1000})),
               StoreError);
  EXPECT_THROW(trace_store(HostStore(1 << 20)), StoreError);  // it has not the room
}

TEST_F(BudgetWithAStore, NeverPredictsMoreTimeThanWithoutOne) {
  const int64_t bytes = share_of(plain_peak, 0.5);
  auto budget = Budget::activations(bytes);
  budget.into(fast_store());
  train(budget, bytes, 4);
  const auto trace = budget.trace();
  ASSERT_TRUE(trace.has_value());
  ASSERT_TRUE(trace->store.has_value());
  StepTrace without = *trace;
  without.store.reset();
  EXPECT_LE(plan(*trace, bytes).microseconds, plan(without, bytes).microseconds);
}

// What a store's threads work on is lost where the step computes on all cores, and only there.
TEST_F(BudgetWithAStore, KnowsWhatTransfersTakeFromTheStep) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = at::get_num_threads();
  const auto work_with = [&](int computing) {
    at::set_num_threads(computing);
    auto budget = Budget::activations(share_of(plain_peak, 0.5));
    budget.into(memory_store());
    for (int i = 0; i < 3; ++i) {
      step_of(model, &budget);
      budget.finish_planning();
    }
    const auto trace = budget.trace();
    at::set_num_threads(threads);
    return trace.value().store.value().work_us_per_byte;
  };
  EXPECT_GT(work_with(cores), 0);
  if (cores > 1) {
    EXPECT_EQ(work_with(cores - 1), 0);
  }
}

TEST_F(BudgetWithAStore, SurvivesAStoreThatFails) {
  const Warnings warnings;
  const int64_t bytes = share_of(plain_peak, 0.5);
  int64_t injected = 0;
  for (unsigned seed = 0; seed < 6; ++seed) {
    auto budget = Budget::activations(bytes);
    const Store store = faulty_store(fast_store(), seed, FaultyStoreRates{20, 100});
    budget.into(store);
    train(budget, bytes, 5);
    injected += store.stats().faults;
  }
  EXPECT_GT(injected, 10);
}

TEST_F(BudgetWithAStore, ToDisk) {
  const tests::TempFolder folder;
  const int64_t bytes = share_of(plain_peak, 0.5);
  auto budget = Budget::activations(bytes);
  budget.into(DiskStore(folder.path("")));
  train(budget, bytes, 5);
  EXPECT_EQ(folder.entries(), 0U);
}

TEST_F(BudgetWithAStore, AStoreThatRoundsIsRefused) {
  CompressedOptions options;
  options.lossy_bfloat16 = true;
  auto budget = Budget::activations(1 << 20);
  EXPECT_NE(message_of<UsageError>([&] { budget.into(CompressedStore(fast_store(), options)); }),
            "");
}

}  // namespace
}  // namespace reprise::testing
