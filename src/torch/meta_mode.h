// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <set>
#include <string>

#include "torch/dispatch_mode.h"

namespace reprise::detail {

struct OperatorInfo;

/// Runs operators for their shapes: see reprise/meta_scope.h. By a shape function of LibTorch (the
/// operator on the meta device), one of ours, or else the CPU's kernel on zeros.
class MetaMode final : public DispatchMode {
 public:
  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) override;

  /// Operators whose kernels were run.
  const std::set<std::string>& run_operators() const { return run_; }

  /// The mode of this thread's MetaScope; null outside.
  static MetaMode*& current();

 private:
  void call_by_shapes(const OperatorInfo& info, torch::jit::Stack& stack);

  std::set<std::string> run_;
};

}  // namespace reprise::detail
