// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/max_batch.h"

#include <algorithm>
#include <utility>

#include <reprise/meta_scope.h>
#include <reprise/meter.h>
#include <reprise/plan.h>

#include "workloads/parts.h"
#include "workloads/plan_workload.h"

namespace reprise::workloads {
namespace {

// What has memory all the same, as data read from a file has.
class RealBytes {
 public:
  int64_t now() const { return meter_.live() - before_; }

 private:
  const Meter meter_;
  const int64_t before_ = meter_.live();
};

}  // namespace

StepBytes bytes_by_shapes(const std::string& name, const WorkloadOptions& options,
                          const Strategy& strategy) {
  const RealBytes real;
  MetaScope shapes;
  const auto workload = make_workload(name, options);
  workload->check(strategy);
  const Batch batch = workload->batch(0);
  PartsOptions parts;
  parts.parts = parts_of(strategy);
  parts.outputs = false;
  StepBytes bytes;
  bytes.base = shapes.live_bytes() + real.now();
  const int64_t phantoms = shapes.live_bytes();
  shapes.reset_peak();
  run_in_parts(*workload, strategy, batch, parts);
  bytes.peak = shapes.peak_bytes() - phantoms;
  return bytes;
}

TracedBatch trace_by_shapes(const std::string& name, const WorkloadOptions& options) {
  const MetaScope shapes;
  const auto workload = make_workload(name, options);
  TracedStep step = trace_workload(*workload);
  return {*options.batch, step.base_bytes, std::move(step.trace)};
}

// Bytes are nearly a line over samples, so its next guess is nearly right. Every second guess
// halves what is left, for bytes that are not.
FittingBatch largest_batch_within(int64_t limit,
                                  const std::function<StepBytes(int64_t samples)>& bytes_of) {
  FittingBatch best{1, bytes_of(1)};
  if (best.bytes.total() > limit) return {0, best.bytes};
  int64_t too_many = kMostSamples + 1;
  bool halve = false;
  for (int64_t samples = 2; best.samples + 1 < too_many; halve = !halve) {
    const StepBytes bytes = bytes_of(samples);
    const int64_t rise =
        std::max<int64_t>(1, (bytes.total() - best.bytes.total()) / (samples - best.samples));
    if (bytes.total() > limit) {
      too_many = samples;
    } else {
      best = {samples, bytes};
    }
    const int64_t guess = halve && too_many <= kMostSamples
                              ? (best.samples + too_many) / 2
                              : best.samples + (limit - best.bytes.total()) / rise;
    samples = std::min(std::max(guess, best.samples + 1), too_many - 1);
  }
  return best;
}

}  // namespace reprise::workloads
