// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/measured_step.h"

#include <algorithm>
#include <chrono>

#include <reprise/equality.h>
#include <reprise/meter.h>

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

std::vector<torch::Tensor> generator_states(torch::Device device) {
  std::vector<torch::Device> devices = {torch::kCPU};
  if (!device.is_cpu()) devices.push_back(device);
  std::vector<torch::Tensor> states;
  for (const torch::Device& each : devices) {
    states.push_back(at::globalContext().defaultGenerator(each).get_state());
  }
  return states;
}

bool all_bit_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), bit_equal);
}

}  // namespace

MeasuredStep measure_step(Workload& workload, const Strategy& strategy, int64_t step) {
  const Meter meter(workload.device());
  Batch batch = workload.batch(step);
  workload.module().zero_grad(/*set_to_none=*/true);
  torch::manual_seed(workload.step_seed(step));
  synchronize(workload.device());
  const bool resident = reset_resident_peak();

  MeasuredStep measured;
  PeakScope scope(meter);
  const auto start = std::chrono::steady_clock::now();
  ForwardResult result = workload.run(strategy, batch);
  measured.held_bytes = meter.live() - scope.base();
  result.loss.backward();
  synchronize(workload.device());
  const auto end = std::chrono::steady_clock::now();
  measured.base_bytes = scope.base();
  measured.peak_bytes = scope.peak_above_base();
  measured.milliseconds = std::chrono::duration<double, std::milli>(end - start).count();
  if (resident) measured.rss_peak_bytes = resident_peak_bytes();
  measured.results = {result.loss.detach(), result.output.detach(), take_gradients(workload, batch),
                      generator_states(workload.device())};
  return measured;
}

Difference compare_results(const StepResults& results, const StepResults& expected) {
  Difference difference;
  difference.bit_equal = bit_equal(results.loss, expected.loss) &&
                         bit_equal(results.output, expected.output) &&
                         all_bit_equal(results.gradients, expected.gradients);
  difference.rng_preserved = all_bit_equal(results.generators, expected.generators);
  if (difference.bit_equal) return difference;
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    difference.max_abs = std::max(
        difference.max_abs, max_abs_difference(results.gradients.at(i), expected.gradients[i]));
  }
  return difference;
}

}  // namespace reprise::workloads
