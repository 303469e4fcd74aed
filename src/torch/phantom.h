// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

// Tensors that say they are on the CPU and have no memory: their data pointer leads to address
// space that is reserved and reads as zeros. A page of it becomes memory when it is written to.

namespace reprise::detail {

/// A phantom of the same type and geometry as `tensor`, a tensor of any device.
at::Tensor make_phantom(const at::Tensor& tensor);

/// Who counts the bytes of phantoms as they come and go; null: nobody. One for the process; it must
/// not be destroyed, and may be called from any thread.
class PhantomCounter {
 public:
  virtual ~PhantomCounter() = default;
  /// Returns what freed() is to be told.
  virtual uint32_t made(int64_t bytes) = 0;
  virtual void freed(int64_t bytes, uint32_t token) = 0;
};
void set_phantom_counter(PhantomCounter* counter);

/// Whether a tensor's storage is a phantom's.
bool is_phantom(const at::Tensor& tensor);

/// Bytes of the phantoms of all threads that are alive, and the most since reset_phantom_peak().
struct PhantomBytes {
  int64_t live = 0;
  int64_t peak = 0;
};
PhantomBytes phantom_bytes();
void reset_phantom_peak();

}  // namespace reprise::detail
