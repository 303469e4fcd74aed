// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

// Whether dropping activations has lowered the peak at all. A region around a whole model does not:
// the backward pass begins with its end, brings everything back at once, and stands where the plain
// run stands.

namespace reprise::detail {

/// What one region has dropped, for as long as this lives. Thread-safe in what it shares.
class DroppedBytes {
 public:
  DroppedBytes() = default;
  ~DroppedBytes() { set(0, device_); }
  DroppedBytes(const DroppedBytes&) = delete;
  DroppedBytes& operator=(const DroppedBytes&) = delete;

  void set(int64_t bytes, c10::Device device);
  int64_t bytes() const { return bytes_; }

  /// The highest that memory has stood since the peak was last reset; to be asked before a replay.
  int64_t peak() const;

  /// To be asked when a replay has brought back `bytes_back` at once: whether that is all that was
  /// dropped, no other region has dropped anything that is still away, and memory had not stood
  /// clearly higher before. Small amounts (below 1 MiB) never count.
  bool saved_nothing(int64_t bytes_back, int64_t peak_before) const;

 private:
  int64_t bytes_ = 0;
  c10::Device device_ = c10::kCPU;
};

}  // namespace reprise::detail
