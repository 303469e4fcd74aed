// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <reprise/export.h>
#include <reprise/plan.h>
#include <reprise/store.h>

#include <ATen/core/Tensor.h>

namespace reprise {

namespace detail {
struct MappedTrace;
}

/// How a step is traced.
struct TraceOptions {
  int steps = 5;   ///< measured; times are medians
  int warmup = 1;  ///< before them

  /// Called before each step, and no part of it: sets gradients to none, seeds generators. Default:
  /// nothing is done.
  std::function<void()> begin = {};
};

struct TracedStep {
  StepTrace trace;
  int64_t base_bytes = 0;  ///< live before the step; what is traced is above it. 0 in a MetaScope
  int64_t peak_bytes = 0;  ///< of the plain step, above the base, as the meter counts it

  /// By which Budget::follow() knows the step again, in this process.
  std::shared_ptr<const detail::MappedTrace> operators = nullptr;
};

/// Runs `forward()` and the backward pass of the loss that it returns, plainly, and measures what a
/// planner needs to know. It must do the same each time. Gradients are left behind. On the CPU.
/// Under a MetaScope no memory is used: sizes are exact, and times are those of operator rates,
/// measured once on this machine. Throws UsageError for less than one step, and Error where the
/// steps differ.
REPRISE_API TracedStep trace_step(const std::function<at::Tensor()>& forward,
                                  const TraceOptions& options = {});

/// Measures what a planner needs to know of a store, for StepTrace::store: sends 128 MiB and
/// fetches them back. What transfers take from the step is for steps that compute on as many
/// threads as are set now (at::set_num_threads()). Throws StoreError.
REPRISE_API TracedStore trace_store(const Store& store);

}  // namespace reprise
