// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <reprise/report.h>

#include "workloads/workload.h"

// The training loop: forward by a strategy, backward, optimiser, until a number of steps or a loss
// is reached. Each step's peak is measured by itself.

namespace reprise::workloads {

struct TrainOptions {
  Strategy strategy = parse_strategy("plain");
  std::optional<int64_t> steps;      ///< stop after so many
  std::optional<double> until_loss;  ///< stop at a loss of this or less
  int64_t log_every = 10000;         ///< log the first step, every so many, and the last
  std::function<void(const TrainingStep&)> on_log;  ///< told each logged step. Default: nobody
};

/// The settings of a run, as they stand before its first step. Throws UsageError when nothing says
/// when to stop, or the strategy does not fit.
Training describe(Workload& workload, const TrainOptions& options);

/// Trains the workload's weights. Equal workloads, seeds and numbers of steps give bit-identical
/// losses and weights, whatever the strategy. Throws as describe() does, and Error as soon as a
/// loss is not finite.
Training train(Workload& workload, const TrainOptions& options);

}  // namespace reprise::workloads
