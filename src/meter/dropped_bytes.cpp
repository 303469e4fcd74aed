// SPDX-License-Identifier: BSD-3-Clause
#include "meter/dropped_bytes.h"

#include <atomic>
#include <optional>

#include <reprise/error.h>
#include <reprise/meter.h>

#include "meter/process_allocator.h"

namespace reprise::detail {
namespace {

constexpr int64_t kSmall = 1 << 20;

std::atomic<int64_t> dropped_now{0}, dropped_ever{0};  // by all regions

struct Memory {
  int64_t live = 0;
  int64_t peak = 0;  // since dropping began, where the device has such a figure
};

std::optional<Memory> memory_of(c10::Device device) {
  try {
    const Meter meter(device);
    const int64_t live = meter.live();
    return Memory{live,
                  device.is_cpu() ? process_allocator().counters().recent_peak() : meter.peak()};
  } catch (const UsageError&) {
    return std::nullopt;  // a device that is not measured
  }
}

}  // namespace

// What an earlier step needed says nothing about this one: the first step of an audited scope keeps
// everything.
DroppedBytes::DroppedBytes() {
  if (dropped_now == 0 && Meter::installed()) process_allocator().counters().reset_recent_peak();
}

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
  const auto memory = memory_of(device_);
  return memory && memory->live + bytes_ / 2 >= memory->peak;
}

bool DroppedBytes::saved_nothing(int64_t bytes_back) const {
  const int64_t little = bytes_ / 20;
  const int64_t dropped_since = dropped_ever - altogether_;
  return bytes_back >= bytes_ - little && others_ <= little && dropped_since <= little;
}

}  // namespace reprise::detail
