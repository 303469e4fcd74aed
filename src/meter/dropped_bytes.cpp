// SPDX-License-Identifier: BSD-3-Clause
#include "meter/dropped_bytes.h"

#include <atomic>

#include <reprise/error.h>
#include <reprise/meter.h>

namespace reprise::detail {
namespace {

constexpr int64_t kSmall = 1 << 20;

std::atomic<int64_t> dropped_by_all{0};

}  // namespace

void DroppedBytes::set(int64_t bytes, c10::Device device) {
  dropped_by_all += bytes - bytes_;
  bytes_ = bytes;
  device_ = device;
}

bool DroppedBytes::saved_nothing(int64_t bytes_back) const {
  const int64_t tolerance = bytes_ / 20;
  if (bytes_ < kSmall || bytes_back < bytes_ - tolerance) return false;
  if (dropped_by_all - bytes_ > tolerance) return false;
  try {
    const Meter meter(device_);
    return meter.live() + tolerance >= meter.peak();
  } catch (const UsageError&) {
    return false;  // a device that is not measured
  }
}

}  // namespace reprise::detail
