// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <reprise/report.h>

#include "workloads/workload.h"

// Strategies side by side on one workload: the same weights, batches and seeds for each, their
// results compared bit by bit with plain's, their bytes and times measured. Round robin, so that a
// machine that slows down slows them all.

namespace reprise::workloads {

struct CompareOptions {
  int64_t steps = 10;                ///< measured steps of each strategy
  int64_t warmup = 1;                ///< unmeasured steps of each strategy before them
  int64_t train = 0;                 ///< then each strategy trains so many steps. Default: none
  bool keep_infeasible = false;      ///< budgets that are too small end in Comparison::infeasible
  std::optional<std::string> store;  ///< the folder of those that offload to a disk
  /// Told before each step, or each training run: how many are done, of how many, and whose is
  /// next. Default: nobody.
  std::function<void(int64_t done, int64_t total, const std::string& strategy)> progress;
};

/// Plain runs first, whether `strategies` names it or not. Weights and buffers are left as they
/// were. Throws UsageError when a strategy does not fit, or has no folder to offload to, before
/// anything runs, and Error when plain's loss is not a finite number. Each strategy that offloads
/// has one store for all of its steps. Each strategy with a budget has one Budget for all of its
/// steps, and warms up until they follow plans; one that is too small throws BudgetInfeasible.
Comparison compare(Workload& workload, const std::vector<Strategy>& strategies,
                   const CompareOptions& options = {});

/// Strategies from each layer by itself to all layers as one segment: for each number of segments
/// that equal sizes can make, the smallest size that makes it. Throws UsageError for a workload
/// with fewer than two layers.
std::vector<Strategy> segment_scan(const Workload& workload);

}  // namespace reprise::workloads
