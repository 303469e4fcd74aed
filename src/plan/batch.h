// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include <reprise/plan.h>

// Steps at batches that were never measured.

namespace reprise::planner {

/// Throws UsageError unless it is 1 to 2^31 - 1.
void require_batch(int64_t batch);

/// Throws UsageError unless the two can be scaled: batches that differ, and one structure.
void check_batches(const TracedBatch& a, const TracedBatch& b);

/// The step at another batch; none if some size would be beyond all reason.
/// REQUIRES: check_batches(a, b), batch >= 1.
std::optional<TracedBatch> scaled(const TracedBatch& a, const TracedBatch& b, int64_t batch);

}  // namespace reprise::planner
