// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <reprise/checkpoint_options.h>

// The guards in force on this thread, for a region that is about to be recorded.

namespace reprise::detail {

using ReplayListener = std::shared_ptr<const std::function<void(const ReplayEvent&)>>;

bool checkpoint_is_off();
std::optional<bool> early_stop_in_force();
const std::vector<ReplayListener>& replay_listeners();

}  // namespace reprise::detail
