// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

namespace torch::autograd {
class SavedVariable;
}

// Tensors kept as autograd keeps them.

namespace reprise::detail {

/// Remembers the version of a tensor without keeping its memory. Hooks switch autograd's own check
/// off; this puts it back.
class VersionStamp {
 public:
  explicit VersionStamp(const at::Tensor& tensor);

  /// Throws c10::Error, as autograd does, when the tensor was changed in place since.
  void check() const;

  bool changed() const { return counter_.current_version() != version_; }

 private:
  c10::VariableVersion counter_;
  uint32_t version_;
};

/// A tensor kept for the backward pass: checked for in-place changes when it is unpacked, and
/// itself seen by the saved-tensor hooks around it (so a region around this one drops it, too).
class SavedTensor {
 public:
  /// With `through_hooks` false, the hooks around do not see it.
  explicit SavedTensor(const at::Tensor& tensor, bool through_hooks = true);
  ~SavedTensor();
  SavedTensor(SavedTensor&&) noexcept;
  SavedTensor& operator=(SavedTensor&&) = delete;

  /// The tensor, with its place in the graph. Throws c10::Error when it was changed in place.
  at::Tensor unpack() const;

  /// Whether it was changed in place since, and cannot be unpacked any more.
  bool changed() const { return stamp_ && stamp_->changed(); }

 private:
  at::Tensor plain_;  // what autograd would not save: undefined tensors, inference tensors
  std::unique_ptr<torch::autograd::SavedVariable> saved_;
  std::optional<VersionStamp> stamp_;  // where no hooks around it keep what it was
};

/// What two runs of the same work must agree on for a tensor that autograd saves: shape, dtype,
/// device, and which operator made it. (Shapes alone would let tensors of one size change places.)
struct SavedMetadata {
  explicit SavedMetadata(const at::Tensor& tensor);
  bool operator==(const SavedMetadata&) const = default;

  /// "Float[4, 8] on cpu from SinBackward0"
  std::string str() const;

  /// Of a dense tensor of these sizes.
  int64_t bytes() const;

  std::vector<int64_t> sizes;  // empty for nested tensors, which have none
  c10::ScalarType dtype;
  c10::Device device;
  const std::type_info* maker;  // type of its autograd node, null for leaves
};

}  // namespace reprise::detail
