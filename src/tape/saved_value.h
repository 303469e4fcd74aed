// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>

#include <reprise/hooks.h>

#include "tape/tape.h"
#include "torch/saved_tensor.h"

namespace reprise::detail {

/// What stands in the graph for a tensor saved under a tape: the tensor itself, or a ticket for it,
/// or in an audit both. It begins with the tensor; the tape decides a little later.
class SavedValue final : public PackedTensor {
 public:
  explicit SavedValue(const at::Tensor& tensor);
  ~SavedValue() override;

  at::Tensor unpack() override;

  /// The tape will decide what becomes of it.
  void wait_for(std::shared_ptr<Tape> tape) { tape_ = std::move(tape); }

  const at::Tensor& kept() const { return kept_; }
  void exchange_for(std::size_t ticket, bool audit);

 private:
  std::optional<VersionStamp> stamp_;
  at::Tensor kept_;
  std::shared_ptr<Tape> tape_;
  std::optional<std::size_t> ticket_;
};

}  // namespace reprise::detail
