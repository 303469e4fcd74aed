// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

// An accelerator without hardware, for what Reprise does on any device. It is LibTorch's
// PrivateUse1 device, named "fake", and has memory with statistics and a capacity, a generator of
// its own, and every operator that the CPU has, computed there over the same memory: models train
// on it to the bits of the CPU. Streams do nothing, as nothing runs later.

namespace reprise::testing {

/// The accelerator's memory: the host's, counted as a caching allocator counts, in whole blocks of
/// 512 bytes. Safe to use from several threads.
///
/// Operators take memory for their results once these are computed. One that fails for want of it
/// has by then written its in-place arguments and drawn its random numbers.
class FakeMemory final : public c10::DeviceAllocator {
 public:
  /// Bytes live at once, at most. Default: no limit.
  void set_capacity(int64_t bytes);

  /// Asked where an allocation does not fit; true: memory was freed, try again. After false the
  /// allocation throws c10::OutOfMemoryError. Called without locks held, in the allocating thread.
  void set_free_callback(std::function<bool()> free);

  int64_t live() const;

  /// The largest live() since the process began, whatever resetPeakStats did.
  int64_t largest() const;

  /// What tensors that are alive asked for: below live(), which counts whole blocks.
  int64_t requested() const;

  // Every data pointer has raw_deleter() as its deleter and itself as its context.
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override;
  void resetAccumulatedStats(c10::DeviceIndex) override;
  void resetPeakStats(c10::DeviceIndex) override;
  /// Free and total bytes; total is the capacity, or 1 TiB if there is no limit.
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override;

 private:
  bool reserve(int64_t block, int64_t bytes);  // false: no room
  void add(int64_t block, int64_t bytes, int64_t count);
  void release(void* data);
  static void delete_data(void* data);

  mutable std::mutex mutex_;
  c10::CachingDeviceAllocator::DeviceStats stats_;
  std::unordered_map<void*, int64_t> sizes_;  // as asked for
  int64_t capacity_ = int64_t{1} << 40;
  int64_t largest_ = 0;
  std::function<bool()> free_;
};

/// Its one device, fake:0.
c10::Device fake_device();

FakeMemory& fake_memory();

/// How often the process has waited for the device.
int64_t fake_waits();

/// Makes it the accelerator of this process, for good. Later calls do nothing. Call it first in a
/// test: a test that also needs a process without accelerator is another test.
void install_fake_accelerator();

}  // namespace reprise::testing
