// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <reprise/plan.h>

#include "workloads/workload.h"

// The largest batch whose step fits so many bytes. Nothing is run: bytes are those of a MetaScope.

namespace reprise::workloads {

/// What a step takes, without the scratch inside of kernels.
struct StepBytes {
  int64_t base = 0;  ///< parameters and the batch
  int64_t peak = 0;  ///< above it
  int64_t total() const { return base + peak; }
};

/// Of a step by a strategy that says no budget. REQUIRES: no MetaScope on this thread.
StepBytes bytes_by_shapes(const std::string& name, const WorkloadOptions& options,
                          const Strategy& strategy);

/// Of the step under the least budget that a plan is found for.
StepBytes least_bytes_by_shapes(const std::string& name, const WorkloadOptions& options);

/// The plan of a step within `limit` in all. Throws BudgetInfeasible where there is none.
Plan plan_by_shapes(const std::string& name, const WorkloadOptions& options, int64_t limit);

struct LargestBatch {
  int64_t samples = 0;  ///< 0: not even one fits
  StepBytes bytes;      ///< at that batch, or at one sample
};

/// The largest batch of which `bytes_of` says that it fits `limit` in all; it must not need less
/// for more samples. Batches beyond 2^20 are not looked at.
LargestBatch largest_batch_within(int64_t limit,
                                  const std::function<StepBytes(int64_t samples)>& bytes_of);

}  // namespace reprise::workloads
