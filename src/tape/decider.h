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
  offload,    // in a store, once nobody else has it; REQUIRES TapeOptions::offloads
  yield,      // as it is, for as long as there is room: REQUIRES TapeOptions::room
};

/// A value that an operator made in the forward pass.
struct ValueInfo {
  const std::string& op;        // "aten::addmm"
  const std::string& overload;  // may be empty
  int64_t invocation;           // how many calls of this operator came before on this tape
  int output;                   // which of its results
  int64_t bytes;                // of the storage
  bool drawn;                   // the storage holds random draws
  const std::string& name;      // given by the user; may be empty
  const std::string& module;    // path of the module that it was made in; may be empty
  const at::Tensor& tensor;
};

class Decider {
 public:
  virtual ~Decider() = default;

  /// What becomes of a value that autograd saves.
  virtual Decision decide(const ValueInfo& value) = 0;

  /// Whether to keep a value for the replays, saved or not: replays then begin there.
  virtual bool hold(const ValueInfo& value) = 0;

  /// Whether a replay of the value can be trusted; if not, it is kept.
  virtual bool trust(const ValueInfo&) { return true; }

  /// A replay of the value gave other bits than the forward pass.
  virtual void distrust(const ValueInfo&) {}
};

}  // namespace reprise::detail
