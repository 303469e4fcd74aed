// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/memory_timeline.h"

#include "workloads/parts.h"
#include "workloads/use_budget.h"

namespace reprise::workloads {
namespace {

void run_passes(Workload& workload, const Strategy& strategy, const Batch& batch,
                const PartsOptions& options) {
  workload.module().zero_grad(/*set_to_none=*/true);
  torch::manual_seed(workload.step_seed(0));
  run_in_parts(workload, strategy, batch, options);
}

void clear_gradients(Workload& workload, Batch& batch) {
  workload.module().zero_grad(/*set_to_none=*/true);
  if (batch.input.requires_grad()) batch.input.mutable_grad().reset();
}

void run_step(Workload& workload, const Strategy& strategy, const PartsOptions& parts,
              const std::unique_ptr<torch::optim::Optimizer>& optimizer) {
  Batch batch = workload.batch(0);
  run_passes(workload, strategy, batch, parts);
  if (optimizer) optimizer->step();
  clear_gradients(workload, batch);
}

// So that moments and other state stand where they stand in every step but the first.
std::unique_ptr<torch::optim::Optimizer> warm_optimizer(Workload& workload,
                                                        const Strategy& strategy,
                                                        const PartsOptions& parts) {
  auto optimizer = workload.make_optimizer();
  run_step(workload, strategy, parts, optimizer);
  return optimizer;
}

}  // namespace

// The batch is made under the ledger, which so learns of the data that it is made from.
Timeline record_step(Workload& workload, const Strategy& strategy, StepKind kind,
                     std::optional<int64_t> parts, Budget* budget) {
  workload.prepare(strategy);
  const UseBudget use(workload, budget);
  PartsOptions passes;
  passes.parts = parts.value_or(parts_of(strategy));
  passes.outputs = passes.parts == 1;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (kind == StepKind::training) optimizer = warm_optimizer(workload, strategy, passes);
  if (budget != nullptr) settle(*budget, [&] { run_step(workload, strategy, passes, optimizer); });
  workload.module().zero_grad(/*set_to_none=*/true);
  LedgerOptions options;
  options.module(workload.module()).device(workload.device());
  if (optimizer) options.optimizer(*optimizer);

  Ledger ledger(options);
  ledger.mark("data");
  Batch batch = workload.batch(0);
  passes.on_begin = [&] { ledger.mark("forward"); };
  passes.on_forward = [&] { ledger.mark("backward"); };
  run_passes(workload, strategy, batch, passes);
  if (optimizer) {
    ledger.mark("optimizer");
    optimizer->step();
  }
  synchronize(workload.device());
  Timeline timeline = ledger.stop();
  clear_gradients(workload, batch);
  return timeline;
}

}  // namespace reprise::workloads
