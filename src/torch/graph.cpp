// SPDX-License-Identifier: BSD-3-Clause
#include "torch/graph.h"

#include <unordered_set>

#include <torch/csrc/autograd/function.h>

namespace reprise::detail {

const void* node_of(const at::Tensor& tensor) { return tensor.grad_fn().get(); }

bool leads_to(const std::vector<at::Tensor>& roots, const void* node) {
  std::vector<const torch::autograd::Node*> open;
  std::unordered_set<const void*> seen;
  const auto visit = [&](const torch::autograd::Node* next) {
    if (next != nullptr && seen.insert(next).second) open.push_back(next);
  };
  for (const at::Tensor& root : roots) visit(root.grad_fn().get());
  while (!open.empty()) {
    const torch::autograd::Node* current = open.back();
    open.pop_back();
    if (current == node) return true;
    for (const torch::autograd::Edge& edge : current->next_edges()) visit(edge.function.get());
  }
  return false;
}

}  // namespace reprise::detail
