// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

// A look at every operator that any thread calls, through LibTorch's observer: nothing is
// dispatched otherwise than without it.

namespace reprise::detail {

struct OperatorInfo;

/// Lives as long as the call does.
class DuringCall {
 public:
  virtual ~DuringCall();
};

/// While it lives, `begins` is called for each operator that has a kernel of its own, at any depth,
/// before that; it may return null. An exception would be lost. Costs about a microsecond for each.
class AllCalls {
 public:
  using Begins = std::unique_ptr<DuringCall> (*)(const OperatorInfo&,
                                                 c10::ArrayRef<c10::IValue> arguments);
  /// REQUIRES: one at a time.
  explicit AllCalls(Begins begins);
  ~AllCalls();
  AllCalls(const AllCalls&) = delete;
  AllCalls& operator=(const AllCalls&) = delete;

 private:
  uint64_t handle_;
};

}  // namespace reprise::detail
