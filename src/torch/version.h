// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

namespace reprise::detail {

inline c10::VariableVersion counter_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter();
}

/// Whether two are the same counter, not only at the same version. LibTorch does not tell, but a
/// VariableVersion is nothing but a pointer to its counter.
inline bool same_counter(const c10::VariableVersion& a, const c10::VariableVersion& b) {
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace reprise::detail
