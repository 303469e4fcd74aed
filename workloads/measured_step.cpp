// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/measured_step.h"

#include <algorithm>
#include <chrono>

#include <reprise/equality.h>
#include <reprise/meter.h>

#include "workloads/parts.h"
#include "workloads/snapshot.h"
#include "workloads/use_budget.h"

namespace reprise::workloads {
namespace {

// Moves the gradients out, so that the next step begins without any.
std::vector<torch::Tensor> take_gradients(Workload& workload, Batch& batch) {
  std::vector<torch::Tensor> gradients;
  for (torch::Tensor& parameter : workload.module().parameters()) {
    gradients.push_back(std::exchange(parameter.mutable_grad(), torch::Tensor()));
  }
  if (batch.input.requires_grad()) {
    gradients.push_back(std::exchange(batch.input.mutable_grad(), torch::Tensor()));
  }
  return gradients;
}

// Puts buffers back when it goes, also where a step has failed.
class Restored {
 public:
  explicit Restored(Workload& workload) : snapshot_(workload.module().buffers()) {}
  ~Restored() { snapshot_.restore(); }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

  int64_t bytes() const { return snapshot_.bytes(); }

 private:
  const Snapshot snapshot_;
};

}  // namespace

MeasuredStep measure_step(Workload& workload, const Strategy& strategy, int64_t step,
                          Budget* budget) {
  const Meter meter(workload.device());
  Batch batch = workload.batch(step);
  const Restored buffers(workload);
  workload.module().zero_grad(/*set_to_none=*/true);
  torch::manual_seed(workload.step_seed(step));
  synchronize(workload.device());
  const bool resident = reset_resident_peak();

  MeasuredStep measured;
  const UseBudget use(workload, budget);
  PeakScope scope(meter);
  PartsOptions parts;
  parts.parts = parts_of(strategy);
  parts.outputs = parts.parts == 1;
  parts.offload = &measured.offload;
  parts.on_forward = [&] {
    measured.held_bytes = std::max(measured.held_bytes, meter.live() - scope.base());
  };
  const auto start = std::chrono::steady_clock::now();
  const ForwardResult result = run_in_parts(workload, strategy, batch, parts);
  synchronize(workload.device());
  const auto end = std::chrono::steady_clock::now();
  measured.base_bytes = scope.base() - buffers.bytes();
  measured.peak_bytes = scope.peak_above_base();
  measured.milliseconds = std::chrono::duration<double, std::milli>(end - start).count();
  if (resident) measured.rss_peak_bytes = resident_peak_bytes();
  measured.results = {result.loss, result.output, take_gradients(workload, batch),
                      generator_states(workload.device()),
                      Snapshot(workload.module().buffers()).contents()};
  return measured;
}

MeasuredStep measure_plain(Workload& workload) {
  const Strategy plain = parse_strategy("plain");
  measure_step(workload, plain, 0);
  MeasuredStep measured = measure_step(workload, plain, 0);
  measured.results = {};
  return measured;
}

Difference compare_results(const StepResults& results, const StepResults& expected) {
  Difference difference;
  difference.bit_equal = bit_equal(results.loss, expected.loss) &&
                         bit_equal(results.output, expected.output) &&
                         all_bit_equal(results.gradients, expected.gradients);
  difference.rng_preserved = all_bit_equal(results.generators, expected.generators);
  difference.buffers_bit_equal = all_bit_equal(results.buffers, expected.buffers);
  if (!difference.bit_equal) {
    difference.max_abs = max_abs_difference(results.gradients, expected.gradients);
  }
  return difference;
}

}  // namespace reprise::workloads
