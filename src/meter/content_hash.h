// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace reprise::detail {

/// A hash of what a tensor shows: its elements in order, bit by bit. Two that differ collide with a
/// chance of one in 2^64. Of a tensor without strides (sparse, nested), always 0.
uint64_t content_hash(const at::Tensor& tensor);

}  // namespace reprise::detail
