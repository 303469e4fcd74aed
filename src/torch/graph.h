// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace reprise::detail {

/// A name for the node of the graph that made a tensor; null for leaves. Not to be used as a node.
const void* node_of(const at::Tensor& tensor);

/// Whether a backward pass from `roots` could come to one of those nodes. Visits all nodes behind
/// the roots.
bool leads_to(const std::vector<at::Tensor>& roots, const std::vector<const void*>& nodes);

/// A moment on this thread: nodes that it makes later are newer.
uint64_t graph_time();

/// This thread, as the nodes that it makes know it.
uint64_t graph_thread();

/// Whether a tensor is the result of a node that was made before that moment, on the same thread.
bool is_older(const at::Tensor& tensor, uint64_t time);

}  // namespace reprise::detail
