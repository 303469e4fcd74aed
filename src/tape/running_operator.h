// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "torch/operator_info.h"

// Which operator a tape is running on this thread: whoever reports a failed allocation may name it.

namespace reprise::detail {

class RunningOperator {
 public:
  /// `arguments` must outlive it.
  RunningOperator(const OperatorInfo& info, const torch::jit::Stack& arguments)
      : info_(info), arguments_(arguments), outer_(innermost()) {
    innermost() = this;
  }
  ~RunningOperator() { innermost() = outer_; }
  RunningOperator(const RunningOperator&) = delete;
  RunningOperator& operator=(const RunningOperator&) = delete;

  const OperatorInfo& info() const { return info_; }
  const torch::jit::Stack& arguments() const { return arguments_; }

  /// Of this thread; null if none runs.
  static const RunningOperator*& innermost() {
    thread_local const RunningOperator* innermost = nullptr;
    return innermost;
  }

 private:
  const OperatorInfo& info_;
  const torch::jit::Stack& arguments_;
  const RunningOperator* const outer_;
};

}  // namespace reprise::detail
