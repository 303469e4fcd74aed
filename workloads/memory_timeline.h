// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include <reprise/ledger.h>

#include "workloads/workload.h"

// Memory over time in one step. It is recorded in a step of its own, never while a step is
// measured, as recording takes time.

namespace reprise::workloads {

enum class StepKind {
  gradients,  ///< as `compare` measures it: forward, backward
  training,   ///< with the optimizer, whose state is there before. Changes the weights
};

/// Gradients are none before and after. The batch is taken in `parts`, by default as the strategy
/// says. Under `budget`, if one is given, a planned step is recorded where there can be one. Throws
/// UsageError as Ledger does, and BudgetInfeasible.
Timeline record_step(Workload& workload, const Strategy& strategy, StepKind kind,
                     std::optional<int64_t> parts = std::nullopt, Budget* budget = nullptr);

}  // namespace reprise::workloads
