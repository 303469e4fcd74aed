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

struct FittingBatch {
  int64_t samples = 0;  ///< 0: not even one fits
  StepBytes bytes;      ///< at that batch, or at one sample
};

/// Batches beyond it are not looked at.
inline constexpr int64_t kMostSamples = int64_t{1} << 20;

/// The largest batch of which `bytes_of` says that it fits `limit` in all; it must not need less
/// for more samples.
FittingBatch largest_batch_within(int64_t limit,
                                  const std::function<StepBytes(int64_t samples)>& bytes_of);

/// The step with the batch of the options, which is set.
TracedBatch trace_by_shapes(const std::string& name, const WorkloadOptions& options);

}  // namespace reprise::workloads
