// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

// Numerical equality as Reprise promises it: bit by bit.

namespace reprise {

/// Whether two tensors hold the same bits: same shape, dtype and device, and every element of the
/// same representation (so NaN equals the same NaN, and 0.0 differs from -0.0). Strides do not
/// matter. Two undefined tensors are equal; an undefined and a defined one are not. Sparse (COO)
/// tensors are equal when their indices and values are. Allocates a copy of what is not contiguous.
/// Throws UsageError for other layouts, quantized tensors and tensors without data (meta).
REPRISE_API bool bit_equal(const at::Tensor& a, const at::Tensor& b);

/// Largest absolute difference of two tensors of the same shape, computed in float64. 0 for empty
/// or two undefined tensors; infinity where one is undefined, or exactly one of two elements is NaN
/// or they are infinities of different sign. Equal infinities, and any two NaN, differ by 0. Dtypes
/// and devices may differ.
/// Throws UsageError when the shapes differ, and for the tensors that bit_equal() refuses.
REPRISE_API double max_abs_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace reprise
