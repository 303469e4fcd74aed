// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <reprise/error.h>
#include <reprise/meter.h>

#include "workloads/libtorch.h"
#include "workloads/parts.h"

namespace reprise::workloads {
namespace {

using Clock = std::chrono::steady_clock;

void require_sense(Workload& workload, const TrainOptions& options) {
  if (!options.steps && !options.until_loss) {
    throw UsageError("nothing says when to stop", "give --steps N, --until-loss X or both");
  }
  if (options.steps.value_or(1) < 1) {
    throw UsageError("one training step or more is expected, got " + std::to_string(*options.steps),
                     "give --steps N with N of 1 or more");
  }
  if (options.log_every < 1) {
    throw UsageError(
        "steps between log lines must be 1 or more, got " + std::to_string(options.log_every),
        "give --log-every N with N of 1 or more");
  }
  workload.check(options.strategy);
}

void require_finite(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw Error("the loss is " + std::to_string(loss) + " at step " + std::to_string(step),
              step == 1 ? "it is so before any training: check the data and the sizes of the model"
                        : "training diverged: use a smaller --learning-rate");
}

struct StepMeasure {
  TrainingStep step;
  int64_t base_bytes = 0;
};

StepMeasure train_step(Workload& workload, torch::optim::Optimizer& optimizer,
                       const Strategy& strategy, int64_t number) {
  const Batch batch = workload.batch(number - 1);
  torch::manual_seed(workload.step_seed(number - 1));
  optimizer.zero_grad(/*set_to_none=*/true);
  synchronize(workload.device());
  const PeakScope scope{Meter(workload.device())};
  const auto start = Clock::now();
  PartsOptions parts;
  parts.parts = parts_of(strategy);
  parts.outputs = false;
  const torch::Tensor loss = run_in_parts(workload, strategy, batch, parts).loss;
  optimizer.step();
  synchronize(workload.device());
  const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start;
  return {{number, loss.item<double>(), scope.peak_above_base(), scope.peak(), elapsed.count()},
          scope.base()};
}

}  // namespace

Training describe(Workload& workload, const TrainOptions& options) {
  require_sense(workload, options);
  Training training;
  training.workload = workload.name();
  training.strategy = options.strategy.text;
  training.device = workload.device().str();
  training.libtorch = loaded_libtorch().text();
  training.threads = torch::get_num_threads();
  training.seed = workload.seed();
  training.parameters = workload.parameter_count();
  training.max_steps = options.steps;
  training.until_loss = options.until_loss;
  training.log_every = options.log_every;
  return training;
}

Training train(Workload& workload, const TrainOptions& options) {
  Training training = describe(workload, options);
  workload.prepare(options.strategy);
  const auto optimizer = workload.make_optimizer();
  const RegionReport report;
  const auto start = Clock::now();
  for (bool last = false; !last;) {
    const int64_t number = ++training.steps;
    const StepMeasure measure = train_step(workload, *optimizer, options.strategy, number);
    const TrainingStep& step = measure.step;
    require_finite(step.loss, number);
    training.loss = step.loss;
    training.base_bytes = measure.base_bytes;
    training.peak_bytes = std::max(training.peak_bytes, step.peak_bytes);
    training.total_peak_bytes = std::max(training.total_peak_bytes, step.total_peak_bytes);
    training.reached_loss = options.until_loss && step.loss <= *options.until_loss;
    last = training.reached_loss || (options.steps && number >= *options.steps);
    if (number == 1 || number % options.log_every == 0 || last) {
      training.log.push_back(step);
      if (options.on_log) options.on_log(step);
    }
  }
  training.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  training.regions = report.regions();
  if (const auto quality = workload.quality()) {
    training.quality = quality->value;
    training.quality_name = quality->name;
  }
  return training;
}

}  // namespace reprise::workloads
