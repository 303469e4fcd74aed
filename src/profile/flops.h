// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "torch/call_watch.h"

// Floating-point operations by the shapes of an operator's tensors, two for each multiply-add, with
// the formulas of torch.utils.flop_counter. One difference: the gradient of a grouped convolution's
// weight counts what is computed, which is as much as the forward pass; the Python counts it as if
// there were no groups.

namespace reprise::detail {

/// What is known when an operator begins: a convolution needs its output's shape, too.
struct FlopCount {
  int64_t flops = 0;
  int64_t per_position = 0;  ///< of the output, batch and channels not counted

  int64_t total(c10::ArrayRef<const c10::IValue> outputs) const;

  /// REQUIRES: the operator has ended.
  int64_t total(const WatchedCall& call) const;
};

FlopCount count_flops(const OperatorInfo& op, c10::ArrayRef<const c10::IValue> inputs);

/// REQUIRES: the operator is beginning.
FlopCount count_flops(const WatchedCall& call);

}  // namespace reprise::detail
