// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <reprise/error.h>
#include <reprise/meter.h>

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace {

using reprise::MemoryStats;
using reprise::Meter;
using reprise::PeakScope;

torch::Tensor bytes(int64_t n) { return torch::empty({n}, torch::kByte); }

TEST(MeterTest, counts_the_exact_bytes_of_a_tensor) {
  const Meter meter;
  const MemoryStats before = meter.stats();
  const auto t = torch::empty({3, 5, 7}, torch::kFloat);
  const MemoryStats after = meter.stats();
  EXPECT_EQ(after.live - before.live, 3 * 5 * 7 * 4);
  EXPECT_EQ(after.allocated_total - before.allocated_total, 3 * 5 * 7 * 4);
  EXPECT_EQ(after.allocations - before.allocations, 1);
  EXPECT_EQ(after.freed_total, before.freed_total);
  EXPECT_EQ(meter.live(), after.live);
  EXPECT_EQ(meter.peak(), after.peak);
  EXPECT_EQ(meter.allocations(), after.allocations);
}

TEST(MeterTest, live_returns_to_base_after_free) {
  const Meter meter;
  const MemoryStats before = meter.stats();
  {
    const auto a = bytes(1000);
    const auto view = a.narrow(0, 10, 20);
    const auto copy = a.clone();
    EXPECT_EQ(meter.live() - before.live, 2000);
  }
  EXPECT_EQ(meter.live(), before.live);
  EXPECT_EQ(meter.stats().freed_total - before.freed_total, 2000);
}

TEST(MeterTest, parameters_count) {
  const Meter meter;
  const int64_t base = meter.live();
  const torch::nn::Linear layer(10, 20);
  EXPECT_EQ(meter.live() - base, (10 * 20 + 20) * 4);
}

// Allocated before main(), and its successor freed after main().
torch::Tensor static_tensor = bytes(123);

TEST(MeterTest, tensors_in_static_objects_count) {
  const Meter meter;
  const int64_t with = meter.live();
  static_tensor.reset();
  EXPECT_EQ(with - meter.live(), 123);
  static_tensor = bytes(123);
  EXPECT_EQ(meter.live(), with);
}

TEST(MeterTest, zero_size_counts_nothing) {
  const Meter meter;
  const MemoryStats before = meter.stats();
  const auto t = torch::empty({0, 4});
  EXPECT_EQ(t.data_ptr(), nullptr);
  EXPECT_EQ(meter.live(), before.live);
  EXPECT_EQ(meter.allocations(), before.allocations);
}

TEST(MeterTest, resize_of_a_storage_counts) {
  const Meter meter;
  const int64_t base = meter.live();
  auto t = bytes(10);
  std::memset(t.data_ptr(), 7, 10);
  t.resize_({1000});
  EXPECT_EQ(meter.live() - base, 1000);
  EXPECT_TRUE(t.narrow(0, 0, 10).eq(7).all().item<bool>());
  t.storage().set_nbytes(0);
  t.reset();
  EXPECT_EQ(meter.live(), base);
}

TEST(MeterTest, memory_of_others_does_not_count) {
  const Meter meter;
  const MemoryStats before = meter.stats();
  std::array<float, 100> data{};
  const auto t = torch::from_blob(data.data(), {100});
  EXPECT_EQ(meter.live(), before.live);
  EXPECT_EQ(meter.allocations(), before.allocations);
}

TEST(MeterTest, keeps_the_alignment_of_64_bytes) {
  for (int64_t n = 1; n <= 5000; ++n) {
    const auto t = bytes(n);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(t.data_ptr()) % 64, 0u) << n << " bytes";
    std::memset(t.data_ptr(), 0xff, static_cast<size_t>(n));
  }
}

TEST(MeterTest, a_refused_allocation_changes_no_counter) {
  const Meter meter;
  const MemoryStats before = meter.stats();
  // Sizes that LibTorch refuses before it asks the system; the second overflows with any header.
  for (const size_t n : {size_t{1} << 63, std::numeric_limits<size_t>::max()}) {
    EXPECT_THROW(c10::GetCPUAllocator()->allocate(n), c10::Error);
  }
  const MemoryStats after = meter.stats();
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.peak, before.peak);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.allocated_total, before.allocated_total);
}

TEST(MeterTest, raw_allocations_count) {
  const Meter meter;
  const int64_t base = meter.live();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  ASSERT_NE(allocator->raw_deleter(), nullptr);
  void* data = allocator->raw_allocate(300);
  EXPECT_EQ(meter.live() - base, 300);
  allocator->raw_deallocate(data);
  allocator->raw_deallocate(allocator->raw_allocate(0));
  EXPECT_EQ(meter.live(), base);
}

TEST(MeterTest, raw_block_of_the_allocator_before_ours_is_freed_by_its_own_deleter) {
  const MemoryStats before = Meter().stats();
  c10::GetCPUAllocator()->raw_deallocate(c10::GetDefaultCPUAllocator()->raw_allocate(300));
  EXPECT_EQ(Meter().live(), before.live);
  EXPECT_EQ(Meter().stats().freed_total, before.freed_total);
}

TEST(MeterTest, lazy_clone_is_copied_at_the_first_write) {
  const Meter meter;
  const int64_t base = meter.live();
  auto a = torch::zeros({100});
  auto b = a._lazy_clone();
  EXPECT_EQ(meter.live() - base, 400);
  b.add_(1);
  EXPECT_EQ(meter.live() - base, 800);
  EXPECT_EQ(a.sum().item<float>(), 0);
  a = b = torch::Tensor();
  EXPECT_EQ(meter.live(), base);
}

TEST(MeterTest, reset_peak_returns_the_old_peak) {
  const Meter meter;
  const int64_t base = meter.live();
  meter.reset_peak();
  bytes(5000);
  EXPECT_EQ(meter.peak(), base + 5000);
  EXPECT_EQ(meter.reset_peak(), base + 5000);
  EXPECT_EQ(meter.peak(), base);
}

TEST(MeterTest, a_block_may_be_freed_by_another_thread) {
  const Meter meter;
  const int64_t base = meter.live();
  torch::Tensor t;
  std::thread([&] { t = bytes(777); }).join();
  EXPECT_EQ(meter.live() - base, 777);
  std::thread([&] { t.reset(); }).join();
  EXPECT_EQ(meter.live(), base);
}

TEST(MeterTest, counts_rightly_under_eight_threads) {
  constexpr int kThreads = 8;
  constexpr int kAllocations = 20000;
  const Meter meter;
  meter.reset_peak();
  const MemoryStats before = meter.stats();
  std::atomic<int64_t> largest{0};
  std::atomic<int64_t> total{0};
  std::vector<std::thread> threads;
  for (int seed = 0; seed < kThreads; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(static_cast<unsigned>(seed));
      std::array<c10::DataPtr, 8> held;
      int64_t own_largest = 0;
      int64_t own_total = 0;
      for (int i = 0; i < kAllocations; ++i) {
        const int64_t n = 1 + random() % 8192;
        held.at(random() % held.size()) = c10::GetCPUAllocator()->allocate(static_cast<size_t>(n));
        own_largest = std::max(own_largest, n);
        own_total += n;
      }
      total += own_total;
      for (int64_t seen = largest; seen < own_largest;) {
        if (largest.compare_exchange_weak(seen, own_largest)) break;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const MemoryStats after = meter.stats();
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.allocations - before.allocations, kThreads * kAllocations);
  EXPECT_EQ(after.allocated_total - before.allocated_total, total);
  EXPECT_EQ(after.freed_total - before.freed_total, total);
  EXPECT_GE(after.peak, before.live + largest);
}

TEST(PeakScopeTest, measures_above_its_base) {
  const auto kept = bytes(100);
  const PeakScope scope;
  EXPECT_EQ(scope.base(), Meter().live());
  EXPECT_EQ(scope.peak_above_base(), 0);
  bytes(3000);
  bytes(2000);
  EXPECT_EQ(scope.peak_above_base(), 3000);
  EXPECT_EQ(scope.peak(), scope.base() + 3000);
}

TEST(PeakScopeTest, inner_scopes_keep_the_outer_peak) {
  const PeakScope outer;
  bytes(5000);
  {
    const PeakScope inner;
    bytes(100);
    EXPECT_EQ(inner.peak_above_base(), 100);
  }
  EXPECT_EQ(outer.peak_above_base(), 5000);
  {
    const PeakScope inner;
    bytes(7000);
    EXPECT_EQ(inner.peak_above_base(), 7000);
  }
  EXPECT_EQ(outer.peak_above_base(), 7000);
}

TEST(MeterTest, a_device_that_is_not_there_is_a_usage_error) {
  for (const char* device : {"cuda:100", "xpu:100", "meta"}) {
    try {
      Meter meter{c10::Device(device)};
      FAIL() << device;
    } catch (const reprise::UsageError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(std::string("device ") + device), std::string::npos) << message;
      EXPECT_NE(message.find("\nhint: "), std::string::npos) << message;
    }
  }
}

TEST(ResidentTest, reset_starts_a_new_peak) {
  constexpr size_t kBytes = 64 << 20;
  constexpr int64_t kMost = 60 << 20;  // the system counts pages loosely
  if (!reprise::resident_bytes() || !reprise::resident_peak_bytes()) GTEST_SKIP() << "no figures";
  const int64_t before = *reprise::resident_bytes();
  // Straight from the system: an allocator might keep the pages after the free.
  void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 1, kBytes);
  EXPECT_GE(*reprise::resident_bytes(), before + kMost);
  const int64_t peak = *reprise::resident_peak_bytes();
  EXPECT_GE(peak, before + kMost);
  munmap(pages, kBytes);
  if (!reprise::reset_resident_peak()) GTEST_SKIP() << "the system refuses to reset the peak";
  EXPECT_LE(*reprise::resident_peak_bytes(), peak - kMost);
}

}  // namespace
