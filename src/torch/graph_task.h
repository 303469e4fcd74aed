// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>

// Which backward pass is this thread in?

namespace reprise::detail {

/// No backward pass is running on this thread.
inline constexpr int64_t kNoGraphTask = -1;

/// The number of the innermost running backward pass, unique in the process, or kNoGraphTask.
int64_t current_graph_task();

/// Calls `callback` when the innermost running backward pass has ended without an exception.
/// REQUIRES: current_graph_task() != kNoGraphTask.
void on_graph_task_end(std::function<void()> callback);

}  // namespace reprise::detail
