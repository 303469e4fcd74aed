// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>

#include <reprise/amp.h>
#include <reprise/offload.h>

#include "workloads/workload.h"

// Forward and backward pass of a batch, whole or in parts: what training and comparing have in
// common.

namespace reprise::workloads {

struct PartsOptions {
  int64_t parts = 1;                  ///< one after the other, their gradients added up
  GradScaler* scaler = nullptr;       ///< scales the losses, if given
  bool outputs = true;                ///< hand out what the model put out
  OffloadSummary* offload = nullptr;  ///< what became of offloaded values is added, if given
  std::function<void()> on_begin;     ///< called before each forward pass. Default: nobody
  std::function<void()> on_forward;   ///< called at the end of each. Default: nobody
};

/// Leaves the gradients of the whole batch's mean loss behind. The loss is that mean, and the
/// outputs are those of the parts, one after the other; both without a graph. Each part is freed
/// before the next begins.
ForwardResult run_in_parts(Workload& workload, const Strategy& strategy, const Batch& batch,
                           const PartsOptions& options);

}  // namespace reprise::workloads
