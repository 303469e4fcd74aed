// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <optional>

#include <reprise/budget.h>

#include "workloads/workload.h"

// Steps of a workload under a Budget.

namespace reprise::workloads {

/// The budget that a strategy says, for training: a size counts all bytes, and of a share the first
/// step runs plainly and is measured. A strategy's store is given to it. None for strategies that
/// say none.
std::optional<Budget> make_budget(const Strategy& strategy, torch::Device device);

/// What a step may take above its base, for a strategy that says a budget.
Budget make_budget(const Strategy& strategy, int64_t above_base, torch::Device device);

/// Runs steps until one has followed a plan that is not to be made again, at most eight of them:
/// the next ones are planned, if they can be.
void settle(Budget& budget, const std::function<void()>& step);

/// Forward passes of the workload run under the budget, if there is one, while this lives.
class UseBudget {
 public:
  UseBudget(Workload& workload, Budget* budget) : workload_(workload) {
    workload_.use_budget(budget);
  }
  ~UseBudget() { workload_.use_budget(nullptr); }
  UseBudget(const UseBudget&) = delete;
  UseBudget& operator=(const UseBudget&) = delete;

 private:
  Workload& workload_;
};

}  // namespace reprise::workloads
