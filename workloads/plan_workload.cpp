// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/plan_workload.h"

#include <optional>

#include <reprise/budget_infeasible.h>
#include <reprise/meta_scope.h>
#include <reprise/report.h>

#include "workloads/snapshot.h"

namespace reprise::workloads {
namespace {

std::string both(int64_t above_base, int64_t base) {
  return format_bytes(above_base) + " above the base (" + format_bytes(above_base + base) +
         " in all)";
}

}  // namespace

TracedStep trace_workload(Workload& workload, const TraceOptions& options, bool holds_output) {
  const Strategy plain = parse_strategy("plain");
  Batch batch = workload.batch(0);
  torch::Tensor held;
  const auto clear = [&] {
    held = torch::Tensor();
    workload.module().zero_grad(/*set_to_none=*/true);
    if (batch.input.requires_grad()) batch.input.mutable_grad().reset();
  };
  // Where there are shapes alone, nothing changes.
  const bool shapes = MetaScope::active();
  std::optional<Snapshot> buffers;
  if (!shapes) buffers.emplace(workload.module().buffers());
  TraceOptions tracing = options;
  tracing.begin = [&] {
    clear();
    torch::manual_seed(workload.step_seed(0));
  };
  clear();
  const int64_t base = MetaScope::live_bytes();
  const auto forward = [&] {
    const ForwardResult result = workload.run(plain, batch);
    if (holds_output) held = result.output.detach();
    return result.loss;
  };
  TracedStep step = trace_step(forward, tracing);
  clear();
  if (shapes) step.base_bytes = base;
  if (!buffers) return step;
  buffers->restore();
  step.base_bytes -= buffers->bytes();
  return step;
}

TracedStep with_store(TracedStep step, const Strategy& strategy) {
  if (!strategy.store) return step;
  try {
    step.trace.store = trace_store(*strategy.store);
  } catch (const StoreError&) {
  }
  return step;
}

Plan plan_within(const std::string& where, const TracedStep& step, int64_t above_base,
                 const PlanOptions& options) {
  try {
    return plan(step.trace, above_base, options);
  } catch (const BudgetInfeasible& error) {
    throw BudgetInfeasible(
        where + "no plan fits " + both(above_base, step.base_bytes) + ": the least is " +
            both(error.least(), step.base_bytes) +
            (error.op().empty() ? "" : ", pinned by " + error.op()),
        "give it more, a smaller --batch, or with train the batch in parts by --accumulate N",
        error.limit(), error.least(), error.op());
  }
}

}  // namespace reprise::workloads
