// SPDX-License-Identifier: BSD-3-Clause
#include "meter/dropped_bytes.h"

#include <atomic>
#include <optional>

#include <reprise/error.h>
#include <reprise/meter.h>

namespace reprise::detail {
namespace {

constexpr int64_t kSmall = 1 << 20;

std::atomic<int64_t> dropped_now{0}, dropped_ever{0};  // by all regions

std::optional<Meter> meter_of(c10::Device device) {
  try {
    return Meter(device);
  } catch (const UsageError&) {
    return std::nullopt;  // a device that is not measured
  }
}

}  // namespace

void DroppedBytes::set(int64_t bytes, c10::Device device) {
  dropped_now += bytes - bytes_;
  if (bytes > bytes_) dropped_ever += bytes - bytes_;
  bytes_ = bytes;
  device_ = device;
  others_ = dropped_now - bytes;
  altogether_ = dropped_ever;
}

bool DroppedBytes::memory_is_at_its_peak() const {
  if (bytes_ < kSmall) return false;
  const auto meter = meter_of(device_);
  return meter && meter->live() + bytes_ / 2 >= meter->peak();
}

bool DroppedBytes::saved_nothing(int64_t bytes_back) const {
  const int64_t little = bytes_ / 20;
  const int64_t dropped_since = dropped_ever - altogether_;
  return bytes_back >= bytes_ - little && others_ <= little && dropped_since <= little;
}

}  // namespace reprise::detail
