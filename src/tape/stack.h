// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/ivalue.h>

// Tensors among an operator's arguments and results.

namespace reprise::detail {

/// Whether a value is a list of tensors some of which are missing (indexing takes such lists).
inline bool is_optional_tensor_list(const c10::IValue& value) {
  if (!value.isList() || value.isTensorList()) return false;
  for (const c10::IValue& element : value.toListRef()) {
    if (element.isTensor()) return true;
  }
  return false;
}

/// Calls `visit(tensor)` for each tensor in a value on the stack, undefined ones included.
template <class Visitor>
void visit_tensors(const c10::IValue& value, Visitor&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (is_optional_tensor_list(value)) {
    for (const c10::IValue& element : value.toListRef()) {
      visit(element.isTensor() ? element.toTensor() : at::Tensor());
    }
  }
}

}  // namespace reprise::detail
