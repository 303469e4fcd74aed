// SPDX-License-Identifier: BSD-3-Clause
#include "torch/graph.h"

#include <algorithm>
#include <unordered_set>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

namespace reprise::detail {

const void* node_of(const at::Tensor& tensor) { return tensor.grad_fn().get(); }

bool leads_to(const std::vector<at::Tensor>& roots, const std::vector<const void*>& nodes) {
  std::vector<const torch::autograd::Node*> open;
  std::unordered_set<const void*> seen;
  const auto visit = [&](const torch::autograd::Node* next) {
    if (next != nullptr && seen.insert(next).second) open.push_back(next);
  };
  for (const at::Tensor& root : roots) visit(root.grad_fn().get());
  while (!open.empty()) {
    const torch::autograd::Node* current = open.back();
    open.pop_back();
    if (std::find(nodes.begin(), nodes.end(), current) != nodes.end()) return true;
    for (const torch::autograd::Edge& edge : current->next_edges()) visit(edge.function.get());
  }
  return false;
}

uint64_t graph_time() { return at::sequence_number::peek(); }

uint64_t graph_thread() { return at::RecordFunction::currentThreadId(); }

bool is_older(const at::Tensor& tensor, uint64_t time) {
  const auto node = tensor.grad_fn();
  return node && node->sequence_nr() < time;
}

}  // namespace reprise::detail
