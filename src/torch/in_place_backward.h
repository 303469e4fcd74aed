// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/record_function.h>

// The derivatives of softmax and log_softmax, in place: their result takes the memory of the
// gradient that they are given, if nobody else has it. The bits are the same, element by element:
// the kernels read an element for the last time just before they write it. At the loss of a
// language model, where its peak often stands, that is one tensor of the size of the logits less.
//
// Nobody else has a gradient that
//   - a node of autograd's own, running for autograd's engine, has as its only input,
//   - has one reference to it and to its storage, and none that is weak: so no hook, captured
//     gradient, retained gradient, other node, view or caller,
//   - is plain memory of the CPU's allocator, all of it: no from_blob(), no part, no expand().
// All else, and every operator that is called in another way, or on another device, or under a
// mode, is computed as if this were not here; all is where another library has replaced the CPU's
// kernel of such an operator.

namespace reprise::detail {

/// While one lives, backward passes through our engine that begin are of that kind. They count.
/// Thread-safe. REQUIRES: ensure_engine(), or no effect. The first costs about 0.1 ms (it asks for
/// others' kernels), a pass then 0.3 microseconds for each node.
class InPlaceBackward {
 public:
  InPlaceBackward();
  ~InPlaceBackward();
  InPlaceBackward(const InPlaceBackward&) = delete;
  InPlaceBackward& operator=(const InPlaceBackward&) = delete;
};

/// Our engine's part: stands around one backward pass, on its thread. Nothing if none of the above
/// lives.
class InPlacePass {
 public:
  InPlacePass();
  ~InPlacePass();
  InPlacePass(const InPlacePass&) = delete;
  InPlacePass& operator=(const InPlacePass&) = delete;

 private:
  at::CallbackHandle observer_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace reprise::detail
