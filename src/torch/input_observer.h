// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace reprise::detail {

/// While it lives, shows `visit` the tensors that this thread's operators are given, without those
/// that operators give to each other. Observers nest; each sees them. `visit` must not throw, nor
/// call operators.
class InputObserver {
 public:
  explicit InputObserver(std::function<void(const at::Tensor&)> visit);
  ~InputObserver();
  InputObserver(const InputObserver&) = delete;
  InputObserver& operator=(const InputObserver&) = delete;

 private:
  const at::RecordFunctionGuard observers_on_;
};

}  // namespace reprise::detail
