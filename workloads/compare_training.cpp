// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/compare_training.h"

#include <vector>

#include "workloads/snapshot.h"
#include "workloads/train.h"

namespace reprise::workloads {
namespace {

TrainOptions settings_of(const Strategy& strategy, int64_t steps) {
  TrainOptions settings;
  settings.strategy = strategy;
  settings.steps = steps;
  return settings;
}

}  // namespace

void train_side_by_side(Workload& workload, const std::vector<Strategy>& strategies, int64_t steps,
                        Comparison& comparison,
                        const std::function<void(const std::string& strategy)>& next) {
  comparison.train_steps = steps;
  const Snapshot start(state_of(workload.module()));
  std::vector<torch::Tensor> expected;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    next(strategies[i].text);
    start.restore();
    const Training training = train(workload, settings_of(strategies[i], steps));
    const std::vector<torch::Tensor> weights = Snapshot(state_of(workload.module())).contents();
    if (expected.empty()) expected = weights;
    TrainingOutcome outcome;
    outcome.loss = training.loss;
    outcome.quality = training.quality;
    outcome.seconds = training.seconds;
    outcome.peak_bytes = training.peak_bytes;
    outcome.weights_bit_equal = all_bit_equal(weights, expected);
    outcome.max_abs_weight_diff = max_abs_difference(weights, expected);
    comparison.rows[i].training = outcome;
  }
  start.restore();
  workload.module().zero_grad(/*set_to_none=*/true);
}

}  // namespace reprise::workloads
