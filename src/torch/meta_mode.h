// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "torch/dispatch_mode.h"

namespace reprise::detail {

struct OperatorInfo;

/// Runs operators for their shapes: see reprise/meta_scope.h. By a shape function of LibTorch (the
/// operator on the meta device), one of ours, or else the CPU's kernel on zeros.
class MetaMode final : public DispatchMode {
 public:
  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) override;

  /// Called after each operator that computes something, with its arguments and results; none to
  /// begin with.
  using Watch = std::function<void(const OperatorInfo&, c10::ArrayRef<c10::IValue>,
                                   c10::ArrayRef<c10::IValue>)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  /// Operators whose kernels were run.
  const std::set<std::string>& run_operators() const { return run_; }

  /// The mode of this thread's MetaScope; null outside.
  static MetaMode*& current();

 private:
  void call(const OperatorInfo& info, torch::jit::Stack& stack);
  void call_by_shapes(const OperatorInfo& info, torch::jit::Stack& stack);

  std::set<std::string> run_;
  Watch watch_;
};

}  // namespace reprise::detail
