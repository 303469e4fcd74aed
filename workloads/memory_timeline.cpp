// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/memory_timeline.h"

namespace reprise::workloads {
namespace {

ForwardResult forward(Workload& workload, const Strategy& strategy, const Batch& batch) {
  workload.module().zero_grad(/*set_to_none=*/true);
  torch::manual_seed(workload.step_seed(0));
  return workload.run(strategy, batch);
}

// So that moments and other state stand where they stand in every step but the first.
std::unique_ptr<torch::optim::Optimizer> warm_optimizer(Workload& workload,
                                                        const Strategy& strategy,
                                                        const Batch& batch) {
  auto optimizer = workload.make_optimizer();
  forward(workload, strategy, batch).loss.backward();
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
  LedgerOptions options;
  options.module(workload.module()).input(batch.input).device(workload.device());
  if (batch.target.defined()) options.input(batch.target);
  if (optimizer) options.optimizer(*optimizer);

  Ledger ledger(options);
  {
    ledger.mark("forward");
    const ForwardResult result = forward(workload, strategy, batch);
    ledger.mark("backward");
    result.loss.backward();
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
