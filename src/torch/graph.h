// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace reprise::detail {

/// A name for the node of the graph that made a tensor; null for leaves. Not to be used as a node.
const void* node_of(const at::Tensor& tensor);

/// Whether a backward pass from `roots` could come to that node. Visits all nodes behind them.
bool leads_to(const std::vector<at::Tensor>& roots, const void* node);

}  // namespace reprise::detail
