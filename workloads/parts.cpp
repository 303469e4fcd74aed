// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/parts.h"

#include <vector>

#include <reprise/accumulate.h>
#include <reprise/scope.h>

namespace reprise::workloads {
namespace {

torch::Tensor scaled(const torch::Tensor& loss, GradScaler* scaler) {
  return scaler != nullptr ? scaler->scale(loss) : loss;
}

// Bandwidths are the store's, of all that it has done so far.
void add(OffloadSummary& total, const OffloadSummary& pass) {
  for (const auto count :
       {&OffloadSummary::seen, &OffloadSummary::seen_bytes, &OffloadSummary::moved,
        &OffloadSummary::moved_bytes, &OffloadSummary::failed, &OffloadSummary::skipped_small,
        &OffloadSummary::skipped_fraction, &OffloadSummary::skipped_last,
        &OffloadSummary::skipped_alive, &OffloadSummary::skipped_full, &OffloadSummary::fetched,
        &OffloadSummary::fetched_bytes, &OffloadSummary::returned, &OffloadSummary::recomputed}) {
    total.*count += pass.*count;
  }
  total.forward_wait_ms += pass.forward_wait_ms;
  total.backward_wait_ms += pass.backward_wait_ms;
  total.send_bandwidth = pass.send_bandwidth;
  total.fetch_bandwidth = pass.fetch_bandwidth;
}

}  // namespace

ForwardResult run_in_parts(Workload& workload, const Strategy& strategy, const Batch& batch,
                           const PartsOptions& options) {
  GradientAccumulator group(options.parts);
  std::vector<torch::Tensor> outputs;
  torch::Tensor loss;
  double total = 0;
  for (const Batch& part : workload.split(batch, options.parts)) {
    // A whole batch needs no weight, and to count what it weighs may take an operator.
    const double weight = options.parts == 1 ? 1 : workload.loss_weight(part);
    if (options.on_begin) options.on_begin();
    ForwardResult result = workload.run(strategy, part);
    if (!options.outputs) result.output.reset();  // its bytes are the backward pass's
    if (options.on_forward) options.on_forward();
    group.backward(scaled(result.loss, options.scaler), weight);
    if (options.offload != nullptr && strategy.store && result.scope) {
      add(*options.offload, result.scope->summary().offload);
    }
    result.scope.reset();
    if (options.outputs) outputs.push_back(result.output.detach());
    const torch::Tensor weighted =
        options.parts == 1 ? result.loss.detach() : result.loss.detach() * weight;
    loss = loss.defined() ? loss + weighted : weighted;
    total += weight;
  }
  std::vector<torch::Tensor> leaves = workload.module().parameters();
  if (batch.input.requires_grad()) leaves.push_back(batch.input);
  group.finish(leaves);
  if (options.parts > 1) loss = loss / total;
  if (!options.outputs) return {loss, torch::Tensor()};
  return {loss, options.parts == 1 ? outputs.front() : torch::cat(outputs)};
}

}  // namespace reprise::workloads
