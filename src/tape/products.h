// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "tape/record.h"

// What a recorded operator makes, and what it needs to make it again.

namespace reprise::detail {

/// Calls `visit(ValueId)` for each value that node `id` made; a value that it wrote to in place and
/// also returned comes once.
template <class Visitor>
void for_each_product(const Node& node, NodeId id, const std::vector<Value>& values,
                      Visitor&& visit) {
  for (const Write& write : node.writes) {
    if (values[write.after].producer == id) visit(write.after);
  }
  for (const TensorRef& result : node.results) {
    if (result.value == kNone || values[result.value].producer != id) continue;
    bool written = false;
    for (const Write& write : node.writes) written |= write.after == result.value;
    if (!written) visit(result.value);
  }
}

/// Calls `visit(ValueId)` for each value that a replay of the node reads; a value that it reads
/// twice comes twice.
template <class Visitor>
void for_each_input(const Node& node, Visitor&& visit) {
  for (const Write& write : node.writes) {
    if (write.before != kNone) visit(write.before);
  }
  for (const ArgumentRef& argument : node.arguments) {
    if (argument.hidden) continue;
    for (const TensorRef& tensor : argument.tensors) {
      if (tensor.value != kNone && tensor.write == kNone) visit(tensor.value);
    }
  }
}

}  // namespace reprise::detail
