// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

// The question that the tape asks, and the answers. Policies and plans answer it.

namespace reprise::detail {

enum class Decision {
  keep,       // as it is
  encode,     // in a smaller form without loss, where there is one; else keep
  recompute,  // not at all
};

/// A value that an operator made in the forward pass.
struct ValueInfo {
  const std::string& op;        // "aten::addmm"
  const std::string& overload;  // may be empty
  int64_t invocation;           // how many calls of this operator came before on this tape
  int output;                   // which of its results
  int64_t bytes;                // of the storage
  const at::Tensor& tensor;
};

class Decider {
 public:
  virtual ~Decider() = default;

  /// What becomes of a value that autograd saves.
  virtual Decision decide(const ValueInfo& value) = 0;

  /// Whether to keep a value for the replays, saved or not: replays then begin there.
  virtual bool hold(const ValueInfo& value) = 0;
};

}  // namespace reprise::detail
