// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>

#include <reprise/hooks.h>

#include "tape/tape.h"
#include "torch/geometry.h"
#include "torch/saved_tensor.h"

namespace reprise::detail {

/// What stands in the graph for a tensor saved under a tape: the tensor itself, or a ticket for it.
class SavedValue final : public PackedTensor {
 public:
  /// Keeps the tensor.
  explicit SavedValue(const at::Tensor& tensor);
  /// Keeps a ticket; the tape brings the tensor back.
  SavedValue(std::shared_ptr<Tape> tape, std::size_t ticket, const at::Tensor& tensor);
  ~SavedValue() override;

  at::Tensor unpack() override;

 private:
  std::optional<VersionStamp> stamp_;
  at::Tensor kept_;
  std::shared_ptr<Tape> tape_;
  std::size_t ticket_ = 0;
  std::optional<Geometry> geometry_;
};

}  // namespace reprise::detail
