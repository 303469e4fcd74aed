// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

// Whether dropping activations has lowered the peak at all. A region around a whole model does not:
// the backward pass begins with its end, brings everything back at once, and stands where the plain
// run stands.

namespace reprise::detail {

/// What one region has dropped. Begins before the region's forward pass, and lives as long as
/// something may come back. Thread-safe in what it shares.
class DroppedBytes {
 public:
  DroppedBytes();
  ~DroppedBytes() { set(0, device_); }
  DroppedBytes(const DroppedBytes&) = delete;
  DroppedBytes& operator=(const DroppedBytes&) = delete;

  void set(int64_t bytes, c10::Device device);
  int64_t bytes() const { return bytes_; }

  /// To be asked before a replay: whether memory has never stood clearly higher than now, since a
  /// region began while nothing was dropped. (On an accelerator, since its peak was last reset:
  /// there is but one.) If it has, what was dropped was away while it did.
  bool memory_is_at_its_peak() const;

  /// To be asked when a replay that began at the peak has brought back `bytes_back` at once:
  /// whether that is all that was dropped, and no other region has dropped anything meanwhile.
  /// Small amounts (below 1 MiB) never count.
  bool saved_nothing(int64_t bytes_back) const;

 private:
  int64_t bytes_ = 0;
  int64_t others_ = 0;      // what others had dropped then, and have dropped altogether since the
  int64_t altogether_ = 0;  // process began, this included
  c10::Device device_ = c10::kCPU;
};

}  // namespace reprise::detail
