// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/max_batch.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "workloads/measured_step.h"

// The largest batch that fits.

namespace reprise::workloads {
namespace {

TEST(MaxBatch, finds_the_last_that_fits_whatever_the_bytes_rise_like) {
  int64_t asked = 0;
  const auto bytes_of = [&](int64_t samples) {
    ++asked;
    return StepBytes{1000 + samples, 70 * samples + (samples > 40 ? 9 * (samples - 40) : 0)};
  };
  for (int64_t limit = 1000; limit < 90'000; limit += 371) {
    asked = 0;
    const FittingBatch found = largest_batch_within(limit, bytes_of);
    EXPECT_LE(asked, 25);
    if (found.samples == 0) {
      EXPECT_GT(bytes_of(1).total(), limit);
      continue;
    }
    EXPECT_LE(found.bytes.total(), limit);
    EXPECT_GT(bytes_of(found.samples + 1).total(), limit);
  }
}

TEST(MaxBatch, ends_where_everything_fits) {
  const auto bytes_of = [](int64_t) { return StepBytes{1, 1}; };
  EXPECT_EQ(largest_batch_within(10, bytes_of).samples, int64_t{1} << 20);
}

// Kernels' scratch is all that shapes do not know.
TEST(MaxBatch, bytes_by_shapes_are_those_of_a_step_but_for_scratch) {
  WorkloadOptions options;
  options.layers = 3;
  options.width = 32;
  options.batch = 16;
  for (const char* text : {"plain", "checkpoint", "tape:full"}) {
    SCOPED_TRACE(text);
    const Strategy strategy = parse_strategy(text);
    const StepBytes bytes = bytes_by_shapes("blocks", options, strategy);
    const auto workload = make_workload("blocks", options);
    measure_step(*workload, strategy, 0);
    const MeasuredStep step = measure_step(*workload, strategy, 0);
    EXPECT_LE(bytes.peak, step.peak_bytes);
    EXPECT_GE(static_cast<double>(bytes.peak), 0.8 * static_cast<double>(step.peak_bytes));
  }
}

}  // namespace
}  // namespace reprise::workloads
