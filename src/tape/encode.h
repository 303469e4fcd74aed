// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "torch/geometry.h"

// Smaller forms of a tensor, without loss: booleans and floats of only two values (dropout noise)
// as one bit each, integers in the narrowest type that holds them.

namespace reprise::detail {

class Encoded {
 public:
  /// Empty when there is no smaller form: then the tensor is best kept as it is. Only dense CPU
  /// tensors that show their whole storage are encoded.
  static std::optional<Encoded> encode(const at::Tensor& tensor);

  /// A tensor of the same bits and geometry, in a storage of its own.
  at::Tensor decode() const;

  int64_t bytes() const;

 private:
  enum class Form { bits, narrow };
  Encoded(Form form, const at::Tensor& tensor) : form_(form), geometry_(tensor) {}

  Form form_;
  Geometry geometry_;
  at::Tensor payload_;    // bits packed into bytes, or narrow integers
  uint64_t values_[2]{};  // the two elements' bit patterns
};

}  // namespace reprise::detail
