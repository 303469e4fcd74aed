// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/use_budget.h"

namespace reprise::workloads {
namespace {

// Enough for a trace, a plan and a few plans more.
constexpr int kSettlingSteps = 8;

Budget made(Budget budget, const Strategy& strategy) {
  if (stays_online(strategy)) budget.stay_online();
  if (strategy.store) budget.into(*strategy.store);
  return budget;
}

}  // namespace

std::optional<Budget> make_budget(const Strategy& strategy, torch::Device device) {
  const auto size = budget_of(strategy);
  if (!size) return std::nullopt;
  if (size->above_base > 0) return make_budget(strategy, size->above_base, device);
  return made(size->bytes > 0 ? Budget(size->bytes, device) : Budget::fraction(size->share, device),
              strategy);
}

Budget make_budget(const Strategy& strategy, int64_t above_base, torch::Device device) {
  return made(Budget::activations(above_base, device), strategy);
}

void settle(Budget& budget, const std::function<void()>& step) {
  for (int i = 0; i < kSettlingSteps; ++i) {
    const BudgetSummary before = budget.summary();
    step();
    budget.finish_planning();
    const BudgetSummary after = budget.summary();
    if (after.planned_steps > before.planned_steps && after.plans == before.plans) return;
  }
}

}  // namespace reprise::workloads
