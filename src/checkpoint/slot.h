// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include <reprise/hooks.h>

#include "checkpoint/frame.h"
#include "torch/backward_pass.h"
#include "torch/saved_tensor.h"

namespace reprise::detail {

/// What stands in the graph for one tensor saved in a region. Owned by the graph, holds its frame.
class Slot final : public PackedTensor {
 public:
  Slot(std::shared_ptr<Frame> frame, const at::Tensor& tensor)
      : metadata(tensor), stamp(tensor), frame_(std::move(frame)) {}

  at::Tensor unpack() override { return frame_->unpack(*this); }

  const SavedMetadata metadata;
  const VersionStamp stamp;
  std::optional<uint64_t> hash;  // of its contents, with Determinism::values

  // Guarded by the frame's lock.
  at::Tensor value;                 // the replayed tensor, until it is unpacked
  int64_t value_pass = kNoPass;     // the backward pass that `value` was replayed for
  int64_t unpacked_pass = kNoPass;  // the last backward pass that has had it

 private:
  const std::shared_ptr<Frame> frame_;
};

}  // namespace reprise::detail
