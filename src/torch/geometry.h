// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

// How a tensor looks at its storage, kept apart from the storage.

namespace reprise::detail {

/// Whether a tensor is a strided view of an ordinary storage, so that its geometry and its storage
/// say all there is to say. Not so: sparse, quantised, nested, mkldnn, subclass-like tensors.
bool has_plain_storage(const at::Tensor& tensor);

struct Geometry {
  explicit Geometry(const at::Tensor& tensor);

  /// The tensor that looks at `storage` in this way: not a leaf of anything, not requiring grad.
  at::Tensor on(const c10::Storage& storage) const;

  /// Whether `tensor` looks at its storage in this way.
  bool matches(const at::Tensor& tensor) const;

  /// Whether every byte of a storage of `bytes` bytes is shown.
  bool covers(std::size_t bytes) const;

  /// "Float[4, 8] on cpu"
  std::string str() const;

  c10::DimVector sizes;
  c10::DimVector strides;
  int64_t offset;
  c10::ScalarType dtype;
  c10::Device device;
  bool conj;
  bool neg;
  bool wrapped_number;  // a scalar that does not take part in type promotion like a tensor
  bool requires_grad;
};

/// A storage as a tensor of bytes, which shares it.
at::Tensor bytes_of(const c10::Storage& storage);

/// A private copy of a storage's bytes.
c10::Storage clone_storage(const c10::Storage& storage);

/// Copies bytes between storages of one size.
void copy_storage(const c10::Storage& from, const c10::Storage& to);

/// An uninitialised storage like `storage`.
c10::Storage empty_like_storage(std::size_t bytes, c10::Device device);

}  // namespace reprise::detail
