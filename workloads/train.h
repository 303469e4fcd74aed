// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <reprise/report.h>
#include <reprise/trace_step.h>

#include "workloads/plan_file.h"
#include "workloads/workload.h"

// The training loop: forward by a strategy, backward, optimiser, until a number of steps or a loss
// is reached. Each step's peak is measured by itself.

namespace reprise::workloads {

struct TrainOptions {
  Strategy strategy = parse_strategy("plain");  ///< where there is a plan: plan_strategy()
  std::optional<PlanFile> plan;                 ///< follow it, in its bytes
  /// The step by its shapes, each batch in its parts: a budget plans for it before the first step,
  /// which follows the plan. Default: the first step goes online, which needs more.
  std::optional<TracedStep> shapes = std::nullopt;
  std::optional<int64_t> steps;      ///< stop after so many, those before a resumed run included
  std::optional<double> until_loss;  ///< stop at a loss of this or less
  int64_t log_every = 10000;         ///< log the first step, every so many, and the last
  int64_t accumulate = 1;            ///< take each batch in so many parts
  std::optional<std::string> store;  ///< the folder of a strategy, or plan, that offloads to a disk
  std::optional<std::string> resume;  ///< go on from this resume file
  std::optional<std::string> save;    ///< write a resume file at the end
  int64_t save_every = 0;             ///< and every so many steps. Default: only at the end
  std::function<void(const TrainingStep&)> on_log;   ///< told each logged step. Default: nobody
  std::function<void(const TrainingStep&)> on_step;  ///< told each step. Default: nobody
  std::function<bool()> interrupted;  ///< asked after each step whether to end. Default: never
};

/// The settings of a run, as they stand before its first step. Throws UsageError when nothing says
/// when to stop, the strategy does not fit or has no folder to offload to, a batch has no so many
/// parts, or `save` cannot be written.
Training describe(Workload& workload, const TrainOptions& options);

/// Trains the workload's weights. Equal workloads, seeds, parts and numbers of steps give
/// bit-identical losses and weights, whatever the strategy, and however often the run is saved and
/// resumed. With autocast to float16 the loss is scaled. Throws as describe() does, as
/// load_resume_file() and save_resume_file() do, Error as soon as a loss is not finite, and
/// UsageError after the first step when its operators are not those of the plan.
Training train(Workload& workload, const TrainOptions& options);

}  // namespace reprise::workloads
