// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

// Which backward pass is this thread in? The passes of one ExecutionGroup count as one.

namespace reprise::detail {

/// No backward pass is running on this thread.
inline constexpr int64_t kNoPass = -1;

/// The number of the innermost running backward pass or, in a group, of the group; unique in the
/// process. kNoPass outside of backward passes.
int64_t current_pass();

/// The node of the graph that runs on this thread, as "AddmmBackward0"; empty outside of nodes.
std::string current_node_name();

/// Its address: another one for every node that is alive. Null outside of nodes.
const void* current_node();

/// Whether the backward passes that this thread is in all want whatever gradients there are, as
/// backward() does: false where one was told which (grad(), or `inputs`).
bool passes_want_all_gradients();

/// Whether the innermost backward pass that this thread is in keeps the graph: for another pass, or
/// to differentiate what it does. False outside.
bool current_pass_keeps_graph();

/// Whether a number is that of a group.
inline bool is_group(int64_t pass) { return pass < kNoPass; }

/// Calls `callback` when the current pass has ended without an exception, or its group has ended.
/// REQUIRES: current_pass() != kNoPass.
void on_pass_end(std::function<void()> callback);

}  // namespace reprise::detail
