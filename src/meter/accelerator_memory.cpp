// SPDX-License-Identifier: BSD-3-Clause
#include "meter/accelerator_memory.h"

#include <array>
#include <limits>
#include <memory>

#include <ATen/DeviceAccelerator.h>

#include "meter/accelerator.h"
#include "meter/call_room.h"
#include "meter/process_allocator.h"

namespace reprise::detail {

void AcceleratorMemory::wait() const { at::accelerator::synchronizeDevice(device_.index()); }

int64_t AcceleratorMemory::live() const { return accelerator_stats(device_).live; }

int64_t AcceleratorMemory::take_peak() {
  const int64_t peak = accelerator_take_peak(device_);
  int64_t old = limited_peak_.load();
  while (old < peak && !limited_peak_.compare_exchange_weak(old, peak)) {
  }
  gauge_.saw(peak);
  CallRoom::saw(*this, peak);
  return peak;
}

int64_t AcceleratorMemory::reset_limited_peak() {
  take_peak();
  return limited_peak_.exchange(live());
}

bool AcceleratorMemory::owns(const c10::DataPtr& block) const {
  return block.device() == device_ && block.get() != nullptr &&
         block.get_deleter() == c10::GetAllocator(device_.type())->raw_deleter();
}

void AcceleratorMemory::set_limit(int64_t limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  LimitedMemory::set_limit(limit);
  const bool watched = limit < kWatched;
  if (watched != watched_) CallRoom::watch(watched);
  watched_ = watched;
}

int64_t AcceleratorMemory::free_bytes() const {
  try {
    return static_cast<int64_t>(at::accelerator::getMemoryInfo(device_.index()).first);
  } catch (const c10::Error&) {
    return kUnlimited;
  }
}

AcceleratorMemory* AcceleratorMemory::in_use() {
  const auto type = at::accelerator::getAccelerator();
  if (!type || c10::GetAllocator(*type) == nullptr) return nullptr;
  return &of({*type, at::accelerator::getDeviceIndex()});
}

AcceleratorMemory& AcceleratorMemory::of(c10::Device device) {
  constexpr std::size_t kDevices = std::numeric_limits<c10::DeviceIndex>::max() + 1;
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::array<std::unique_ptr<AcceleratorMemory>, kDevices>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& memory = all.at(static_cast<std::size_t>(device.index()));
  if (!memory) memory = std::make_unique<AcceleratorMemory>(device);
  return *memory;
}

LimitedMemory& limited_memory(c10::Device device) {
  if (device.is_cpu()) return process_allocator();
  return AcceleratorMemory::of(device);
}

}  // namespace reprise::detail
