// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include <reprise/budget.h>

#include "workloads/workload.h"

namespace reprise::workloads {

/// Forward passes of the workload run under the budget, if there is one, while this lives.
class UseBudget {
 public:
  UseBudget(Workload& workload, std::optional<Budget>& budget) : workload_(workload) {
    workload_.use_budget(budget ? &*budget : nullptr);
  }
  ~UseBudget() { workload_.use_budget(nullptr); }
  UseBudget(const UseBudget&) = delete;
  UseBudget& operator=(const UseBudget&) = delete;

 private:
  Workload& workload_;
};

}  // namespace reprise::workloads
