// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include <reprise/export.h>

namespace reprise {

/// Backward passes that run on this thread while it lives share their replays: a region is run
/// again once for all of them, and what one pass does not ask for waits for the next. For losses
/// whose gradients are taken one after the other from one retained graph.
///
///     ExecutionGroup group;
///     auto dx = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true);
///     auto dw = torch::autograd::grad({loss}, {w});
///
/// The passes must want different saved tensors: a saved tensor that is asked for twice in a group
/// is an Error, from the backward pass. Groups do not nest: a second one on the same thread is a
/// UsageError. Replayed tensors that nobody asked for are freed at the end of the group, on the
/// thread that made it.
class REPRISE_API ExecutionGroup {
 public:
  ExecutionGroup();
  ~ExecutionGroup();
  ExecutionGroup(const ExecutionGroup&) = delete;
  ExecutionGroup& operator=(const ExecutionGroup&) = delete;
};

}  // namespace reprise
