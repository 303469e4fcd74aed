// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/max_batch.h"

#include <algorithm>

#include <reprise/meta_scope.h>
#include <reprise/meter.h>
#include <reprise/plan.h>

#include "workloads/parts.h"
#include "workloads/plan_workload.h"

namespace reprise::workloads {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 20;

// The chain programme and a short search come close.
PlanOptions few_evaluations() {
  PlanOptions options;
  options.evaluations = 3000;
  options.bound = false;
  return options;
}

TracedStep trace_by_shapes(const std::string& name, const WorkloadOptions& options) {
  const MetaScope shapes;
  const auto workload = make_workload(name, options);
  return trace_workload(*workload);
}

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

StepBytes least_bytes_by_shapes(const std::string& name, const WorkloadOptions& options) {
  const TracedStep step = trace_by_shapes(name, options);
  return {step.base_bytes, least_budget(step.trace, few_evaluations()).plan.peak_bytes};
}

Plan plan_by_shapes(const std::string& name, const WorkloadOptions& options, int64_t limit) {
  const TracedStep step = trace_by_shapes(name, options);
  return plan(step.trace, std::max<int64_t>(1, limit - step.base_bytes), few_evaluations());
}

// Bytes are nearly a line over samples, so its next guess is nearly right. Every second guess
// halves what is left, for bytes that are not.
LargestBatch largest_batch_within(int64_t limit,
                                  const std::function<StepBytes(int64_t samples)>& bytes_of) {
  LargestBatch best{1, bytes_of(1)};
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
