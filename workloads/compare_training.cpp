// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/compare_training.h"

#include <vector>

#include "workloads/snapshot.h"
#include "workloads/train.h"

namespace reprise::workloads {
namespace {

TrainOptions settings_of(const StrategyRow& row, int64_t steps) {
  TrainOptions settings;
  settings.strategy = parse_strategy(row.strategy);
  settings.steps = steps;
  return settings;
}

}  // namespace

void train_side_by_side(Workload& workload, Comparison& comparison, int64_t steps,
                        const std::function<void(const std::string& strategy)>& next) {
  comparison.train_steps = steps;
  const Snapshot start(state_of(workload.module()));
  std::vector<torch::Tensor> expected;
  for (StrategyRow& row : comparison.rows) {
    next(row.strategy);
    start.restore();
    const Training training = train(workload, settings_of(row, steps));
    const std::vector<torch::Tensor> weights = Snapshot(state_of(workload.module())).contents();
    if (expected.empty()) expected = weights;
    TrainingOutcome outcome;
    outcome.loss = training.loss;
    outcome.quality = training.quality;
    outcome.seconds = training.seconds;
    outcome.peak_bytes = training.peak_bytes;
    outcome.weights_bit_equal = all_bit_equal(weights, expected);
    outcome.max_abs_weight_diff = max_abs_difference(weights, expected);
    row.training = outcome;
  }
  start.restore();
  workload.module().zero_grad(/*set_to_none=*/true);
}

}  // namespace reprise::workloads
