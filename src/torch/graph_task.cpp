// SPDX-License-Identifier: BSD-3-Clause
#include "torch/graph_task.h"

#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

namespace reprise::detail {

int64_t current_graph_task() { return torch::autograd::get_current_graph_task_id(); }

void on_graph_task_end(std::function<void()> callback) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}

}  // namespace reprise::detail
