// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/memory_timeline.h"

#include "workloads/parts.h"

namespace reprise::workloads {
namespace {

// Forward and backward pass, in as many parts as the strategy asks for.
void run_passes(Workload& workload, const Strategy& strategy, const Batch& batch,
                PartsOptions options = {}) {
  workload.module().zero_grad(/*set_to_none=*/true);
  torch::manual_seed(workload.step_seed(0));
  options.parts = parts_of(strategy);
  options.outputs = options.parts == 1;
  run_in_parts(workload, strategy, batch, options);
}

// So that moments and other state stand where they stand in every step but the first.
std::unique_ptr<torch::optim::Optimizer> warm_optimizer(Workload& workload,
                                                        const Strategy& strategy,
                                                        const Batch& batch) {
  auto optimizer = workload.make_optimizer();
  run_passes(workload, strategy, batch);
  optimizer->step();
  return optimizer;
}

void clear_gradients(Workload& workload, Batch& batch) {
  workload.module().zero_grad(/*set_to_none=*/true);
  if (batch.input.requires_grad()) batch.input.mutable_grad().reset();
}

}  // namespace

Timeline record_step(Workload& workload, const Strategy& strategy, StepKind kind) {
  Batch batch = workload.batch(0);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (kind == StepKind::training) optimizer = warm_optimizer(workload, strategy, batch);
  clear_gradients(workload, batch);
  workload.prepare(strategy);
  LedgerOptions options;
  options.module(workload.module()).input(batch.input).device(workload.device());
  if (batch.target.defined()) options.input(batch.target);
  if (optimizer) options.optimizer(*optimizer);

  Ledger ledger(options);
  {
    PartsOptions marks;
    marks.on_begin = [&] { ledger.mark("forward"); };
    marks.on_forward = [&] { ledger.mark("backward"); };
    run_passes(workload, strategy, batch, marks);
    if (optimizer) {
      ledger.mark("optimizer");
      optimizer->step();
    }
    synchronize(workload.device());
  }
  Timeline timeline = ledger.stop();
  clear_gradients(workload, batch);
  return timeline;
}

}  // namespace reprise::workloads
