// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <ATen/core/stack.h>

// Shapes of the results of operators that LibTorch has a shape function for in Python only. What
// they say is what the CPU's kernels allocate.

namespace reprise::detail {

/// From arguments, whose tensors are on the meta device, to results on it.
using ShapeFunction = std::vector<at::Tensor> (*)(const torch::jit::Stack& arguments);

/// Null for an operator that has none here.
ShapeFunction shape_function(const std::string& op);

}  // namespace reprise::detail
