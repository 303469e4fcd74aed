// SPDX-License-Identifier: BSD-3-Clause
#include "meter/accelerator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <string>

#include <reprise/error.h>

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace reprise::detail {
namespace {

// LibTorch can start an accelerator's peak anew but not set it. What a peak has to be at least is
// therefore kept here. By index alone: a process has accelerators of one type.
std::atomic<int64_t>& carried_peak(c10::Device device) {
  static std::array<std::atomic<int64_t>, std::numeric_limits<c10::DeviceIndex>::max() + 1> carried;
  return carried.at(static_cast<size_t>(device.index()));
}

c10::DeviceAllocator* allocator_of(c10::Device device) {
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

UsageError not_measurable(c10::Device device, const std::string& why) {
  return UsageError("Meter: cannot measure the device " + device.str() + ": " + why,
                    "measure the CPU, Meter(), or the accelerator that your tensors are on");
}

}  // namespace

c10::Device measurable_accelerator(c10::Device device) {
  const auto present = at::accelerator::getAccelerator(/*checked=*/false);
  if (!present) throw not_measurable(device, "this process has no accelerator");
  if (*present != device.type()) {
    throw not_measurable(
        device, "the accelerator of this process is " + c10::DeviceTypeName(*present, true));
  }
  const int count = at::accelerator::deviceCount();
  if (device.index() >= count) {
    throw not_measurable(device, "there are " + std::to_string(count) + " of its type");
  }
  if (!device.has_index()) device.set_index(at::accelerator::getDeviceIndex());
  try {
    if (allocator_of(device) == nullptr) throw not_measurable(device, "it keeps no statistics");
    accelerator_stats(device);
  } catch (const c10::Error& error) {
    throw not_measurable(device, error.what_without_backtrace());
  }
  return device;
}

MemoryStats accelerator_stats(c10::Device device) {
  MemoryStats result;
  c10::DeviceAllocator& allocator = *allocator_of(device);
  // Until the first tensor, the allocator has nothing and refuses questions.
  if (!allocator.initialized()) return result;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = allocator.getDeviceStats(device.index());
  const auto& bytes = stats.allocated_bytes[kAll];
  result.live = bytes.current;
  result.peak = std::max(bytes.peak, carried_peak(device).load());
  result.allocations = stats.allocation[kAll].allocated;
  result.allocated_total = bytes.allocated;
  result.freed_total = bytes.freed;
  return result;
}

int64_t accelerator_reset_peak(c10::Device device) {
  const int64_t old = accelerator_stats(device).peak;
  c10::DeviceAllocator& allocator = *allocator_of(device);
  if (allocator.initialized()) allocator.resetPeakStats(device.index());
  carried_peak(device).store(0);
  return old;
}

int64_t accelerator_take_peak(c10::Device device) {
  c10::DeviceAllocator& allocator = *allocator_of(device);
  if (!allocator.initialized()) return 0;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const int64_t peak = allocator.getDeviceStats(device.index()).allocated_bytes[kAll].peak;
  accelerator_raise_peak(device, peak);
  allocator.resetPeakStats(device.index());
  return peak;
}

void accelerator_raise_peak(c10::Device device, int64_t bytes) {
  std::atomic<int64_t>& carried = carried_peak(device);
  int64_t peak = carried.load();
  while (peak < bytes && !carried.compare_exchange_weak(peak, bytes)) {
  }
}

}  // namespace reprise::detail
