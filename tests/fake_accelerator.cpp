// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fake_accelerator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/fake_operators.h"

namespace reprise::testing {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
constexpr int64_t kBlock = 512;
constexpr std::size_t kAlignment = 64;

int64_t in_blocks(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

using Stats = c10::CachingDeviceAllocator::DeviceStats;

template <class Function>
void for_each_stat(Stats& stats, const Function& function) {
  for (auto* stat : {&stats.allocation, &stats.active, &stats.allocated_bytes,
                     &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    function((*stat)[kAll]);
  }
}

// A CPU generator in all but the device it tells.
struct FakeGenerator final : at::CPUGeneratorImpl {
  explicit FakeGenerator(uint64_t seed = c10::default_rng_seed_val) : CPUGeneratorImpl(seed) {
    device_ = fake_device();
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }

 private:
  CPUGeneratorImpl* clone_impl() const override {
    auto* clone = new FakeGenerator;
    clone->set_state(*get_state());
    return clone;
  }
};

std::atomic<int64_t> waits{0};

struct FakeHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::Device getDeviceFromPtr(void*) const override { return fake_device(); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<FakeGenerator>();
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::make_generator<FakeGenerator>();
    return generator;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    move_to_new_memory(storage, storage.data(), storage.nbytes(), bytes);
  }
};

struct FakeGuard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device getDevice() const override { return fake_device(); }
  c10::Device exchangeDevice(c10::Device) const override { return fake_device(); }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override { ++waits; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, fake_device()); }
};

}  // namespace

void FakeMemory::set_capacity(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

void FakeMemory::set_free_callback(std::function<bool()> free) {
  const std::lock_guard lock(mutex_);
  free_ = std::move(free);
}

int64_t FakeMemory::live() const {
  const std::lock_guard lock(mutex_);
  return stats_.allocated_bytes[kAll].current;
}

int64_t FakeMemory::largest() const {
  const std::lock_guard lock(mutex_);
  return largest_;
}

int64_t FakeMemory::requested() const {
  const std::lock_guard lock(mutex_);
  return stats_.requested_bytes[kAll].current;
}

bool FakeMemory::reserve(int64_t block, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const int64_t live = stats_.allocated_bytes[kAll].current + block;
  if (live > capacity_) return false;
  for (auto* stat : {&stats_.allocation, &stats_.active}) (*stat)[kAll].increase(1);
  for (auto* stat : {&stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes}) {
    (*stat)[kAll].increase(static_cast<std::size_t>(block));
  }
  stats_.requested_bytes[kAll].increase(static_cast<std::size_t>(bytes));
  largest_ = std::max(largest_, live);
  return true;
}

c10::DataPtr FakeMemory::allocate(std::size_t size) {
  if (size == 0) return {nullptr, nullptr, &delete_data, fake_device()};
  const auto bytes = static_cast<int64_t>(size);
  const int64_t block = in_blocks(bytes);
  while (!reserve(block, bytes)) {
    std::function<bool()> free;
    {
      const std::lock_guard lock(mutex_);
      ++stats_.num_alloc_retries;
      free = free_;
    }
    if (free && free()) continue;
    const std::lock_guard lock(mutex_);
    ++stats_.num_ooms;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "fake accelerator out of memory: ", block,
                     " bytes asked for, ", stats_.allocated_bytes[kAll].current, " of ", capacity_,
                     " live");
  }
  void* data = std::aligned_alloc(kAlignment, static_cast<std::size_t>(block));
  if (data == nullptr) throw std::bad_alloc();
  const std::lock_guard lock(mutex_);
  sizes_.emplace(data, bytes);
  return {data, data, &delete_data, fake_device()};
}

void FakeMemory::release(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(data);
  TORCH_INTERNAL_ASSERT(found != sizes_.end(), "freed twice, or never allocated");
  const auto block = static_cast<std::size_t>(in_blocks(found->second));
  for (auto* stat : {&stats_.allocation, &stats_.active}) (*stat)[kAll].decrease(1);
  for (auto* stat : {&stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes}) {
    (*stat)[kAll].decrease(block);
  }
  stats_.requested_bytes[kAll].decrease(static_cast<std::size_t>(found->second));
  sizes_.erase(found);
  std::free(data);
}

void FakeMemory::delete_data(void* data) {
  if (data != nullptr) fake_memory().release(data);
}

c10::DeleterFnPtr FakeMemory::raw_deleter() const { return &delete_data; }

void FakeMemory::copy_data(void* to, const void* from, std::size_t bytes) const {
  default_copy_data(to, from, bytes);
}

Stats FakeMemory::getDeviceStats(c10::DeviceIndex) {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void FakeMemory::resetAccumulatedStats(c10::DeviceIndex) {
  const std::lock_guard lock(mutex_);
  for_each_stat(stats_, [](auto& stat) { stat.reset_accumulated(); });
}

void FakeMemory::resetPeakStats(c10::DeviceIndex) {
  const std::lock_guard lock(mutex_);
  for_each_stat(stats_, [](auto& stat) { stat.reset_peak(); });
}

std::pair<std::size_t, std::size_t> FakeMemory::getMemoryInfo(c10::DeviceIndex) {
  const std::lock_guard lock(mutex_);
  const int64_t live = stats_.allocated_bytes[kAll].current;
  return {static_cast<std::size_t>(std::max<int64_t>(capacity_ - live, 0)),
          static_cast<std::size_t>(capacity_)};
}

c10::Device fake_device() { return {kType, 0}; }

int64_t fake_waits() { return waits; }

FakeMemory& fake_memory() {
  static auto* memory = new FakeMemory;  // tensors may outlive static objects
  return *memory;
}

void install_fake_accelerator() {
  static const bool once = [] {
    c10::register_privateuse1_backend("fake");
    at::RegisterPrivateUse1HooksInterface(new FakeHooks);
    c10::impl::device_guard_impl_registry[static_cast<std::size_t>(kType)].store(new FakeGuard);
    c10::SetAllocator(kType, &fake_memory());
    register_fake_operators();
    register_fake_cells();
    register_fake_autocast();
    return true;
  }();
  (void)once;
}

}  // namespace reprise::testing
