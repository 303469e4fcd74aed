// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <reprise/offload.h>

#include <torch/torch.h>

#include "workloads/workload.h"

// One step of a comparison: gradients set to none, forward, backward, no optimiser step. A
// workload, a strategy and the number of the step come in; bytes, time and every result that must
// not depend on the strategy go out. Weights and buffers are afterwards as they were.

namespace reprise::workloads {

/// What a step computed. Equal bits are expected of every strategy.
struct StepResults {
  torch::Tensor loss;
  torch::Tensor output;                   ///< undefined where the batch was taken in parts
  std::vector<torch::Tensor> gradients;   ///< of the parameters, then of the input if it has one
  std::vector<torch::Tensor> generators;  ///< states of the default generators after the step
  std::vector<torch::Tensor> buffers;     ///< of the module, after the step
};

struct MeasuredStep {
  int64_t base_bytes = 0;
  int64_t peak_bytes = 0;  ///< above base
  int64_t held_bytes = 0;  ///< above base, at the end of the forward pass
  std::optional<int64_t> rss_peak_bytes;
  double milliseconds = 0;
  OffloadSummary offload;  ///< of a strategy that offloads
  StepResults results;
};

/// Under `budget`, if one is given.
MeasuredStep measure_step(Workload& workload, const Strategy& strategy, int64_t step,
                          Budget* budget = nullptr);

/// A plain step without its results, the second of two: the first is not like those that follow.
MeasuredStep measure_plain(Workload& workload);

struct Difference {
  bool bit_equal = true;  ///< loss, output and gradients
  double max_abs = 0;     ///< over the gradients
  bool rng_preserved = true;
  bool buffers_bit_equal = true;
};

Difference compare_results(const StepResults& results, const StepResults& expected);

}  // namespace reprise::workloads
