// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace reprise::detail {

/// Calls `visit` for each defined tensor among boxed arguments or results, those in lists included.
template <class Values, class Visit>
void visit_tensors(const Values& values, Visit&& visit) {
  const auto visit_one = [&](const at::Tensor& tensor) {
    if (tensor.defined()) visit(tensor);
  };
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      visit_one(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) visit_one(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const auto& tensor : value.toOptionalTensorVector()) {
        if (tensor) visit_one(*tensor);
      }
    }
  }
}

}  // namespace reprise::detail
