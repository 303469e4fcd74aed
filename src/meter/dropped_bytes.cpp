// SPDX-License-Identifier: BSD-3-Clause
#include "meter/dropped_bytes.h"

#include <atomic>
#include <optional>

#include <reprise/error.h>
#include <reprise/meter.h>

namespace reprise::detail {
namespace {

constexpr int64_t kSmall = 1 << 20;

std::atomic<int64_t> dropped_by_all{0};

std::optional<Meter> meter_of(c10::Device device) {
  try {
    return Meter(device);
  } catch (const UsageError&) {
    return std::nullopt;  // a device that is not measured
  }
}

}  // namespace

void DroppedBytes::set(int64_t bytes, c10::Device device) {
  dropped_by_all += bytes - bytes_;
  bytes_ = bytes;
  device_ = device;
}

int64_t DroppedBytes::peak() const {
  const auto meter = meter_of(device_);
  return meter ? meter->peak() : 0;
}

bool DroppedBytes::saved_nothing(int64_t bytes_back, int64_t peak_before) const {
  const int64_t tolerance = bytes_ / 20;
  if (bytes_ < kSmall || bytes_back < bytes_ - tolerance) return false;
  if (dropped_by_all - bytes_ > tolerance) return false;
  const auto meter = meter_of(device_);
  // An earlier step may have peaked a little higher, with the temporaries of its operators.
  return meter && meter->live() + bytes_ / 5 >= peak_before;
}

}  // namespace reprise::detail
