// SPDX-License-Identifier: BSD-3-Clause
#include "meter/counting_allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

namespace {

using reprise::detail::Counters;
using reprise::detail::CountingAllocator;

// A base whose blocks have a context apart from their data, as pinned or cached memory has.
class RecordingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (fails) throw std::bad_alloc();
    void* data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    ++outstanding;
    last_bytes = bytes;
    return {data, new Context{this, data}, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    ++copies;
    std::memcpy(to, from, bytes);
  }

  bool fails = false;
  int outstanding = 0;
  size_t last_bytes = 0;
  mutable int copies = 0;

 private:
  struct Context {
    RecordingAllocator* owner;
    void* data;
  };
  static void release(void* pointer) {
    auto* context = static_cast<Context*>(pointer);
    std::free(context->data);
    --context->owner->outstanding;
    delete context;
  }
};

class CountingAllocatorTest : public testing::Test {
 protected:
  RecordingAllocator base_;
  CountingAllocator counting_{base_};
};

// Sets an allocator for LibTorch's tensors, and the former one again at the end.
class AllocatorGuard {
 public:
  explicit AllocatorGuard(c10::Allocator* allocator) : former_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(allocator);
  }
  ~AllocatorGuard() { c10::SetCPUAllocator(former_); }

 private:
  c10::Allocator* former_;
};

TEST_F(CountingAllocatorTest, frees_through_the_base) {
  {
    const c10::DataPtr block = counting_.allocate(1000);
    EXPECT_EQ(block.get(), block.get_context());
    EXPECT_TRUE(counting_.is_simple_data_ptr(block));
    EXPECT_EQ(block.get_deleter(), counting_.raw_deleter());
    EXPECT_EQ(base_.last_bytes, 1064u);
    EXPECT_EQ(counting_.counters().live(), 1000);
    std::memset(block.get(), 1, 1000);
  }
  EXPECT_EQ(base_.outstanding, 0);
  EXPECT_EQ(counting_.counters().live(), 0);
  EXPECT_EQ(counting_.counters().peak(), 1000);
}

TEST_F(CountingAllocatorTest, tensor_from_before_is_freed_by_its_own_deleter) {
  torch::Tensor before;
  {
    const AllocatorGuard guard(&base_);
    before = torch::empty({100});
  }
  const AllocatorGuard guard(&counting_);
  auto after = torch::empty({10});
  EXPECT_EQ(base_.outstanding, 2);
  EXPECT_EQ(counting_.counters().live(), 40);
  before.reset();
  EXPECT_EQ(base_.outstanding, 1);
  EXPECT_EQ(counting_.counters().live(), 40);
  after.reset();
  EXPECT_EQ(base_.outstanding, 0);
}

TEST_F(CountingAllocatorTest, failure_of_the_base_leaves_the_counters) {
  base_.fails = true;
  EXPECT_THROW(counting_.allocate(100), std::bad_alloc);
  const auto stats = counting_.counters().stats();
  EXPECT_EQ(stats.live, 0);
  EXPECT_EQ(stats.peak, 0);
  EXPECT_EQ(stats.allocations, 0);
  EXPECT_EQ(stats.allocated_total, 0);
}

TEST_F(CountingAllocatorTest, zero_bytes_ask_nothing_of_the_base) {
  const c10::DataPtr block = counting_.allocate(0);
  EXPECT_EQ(block.get(), nullptr);
  EXPECT_EQ(base_.outstanding, 0);
  EXPECT_EQ(counting_.counters().allocations(), 0);
}

TEST_F(CountingAllocatorTest, raw_blocks_and_clones) {
  void* data = counting_.raw_allocate(8);
  std::memcpy(data, "1234567", 8);
  {
    const c10::DataPtr copy = counting_.clone(data, 8);
    EXPECT_STREQ(static_cast<const char*>(copy.get()), "1234567");
    EXPECT_EQ(base_.copies, 1);
    EXPECT_EQ(counting_.counters().live(), 16);
  }
  counting_.raw_deallocate(data);
  EXPECT_EQ(base_.outstanding, 0);
}

TEST_F(CountingAllocatorTest, foreign_raw_blocks_are_not_counted) {
  // The process-wide allocator has named LibTorch's default as the owner of such blocks.
  counting_.raw_deallocate(c10::GetDefaultCPUAllocator()->raw_allocate(100));
  EXPECT_EQ(counting_.counters().stats().freed_total, 0);
}

TEST_F(CountingAllocatorTest, allocators_over_one_another_count_each_for_itself) {
  c10::Allocator& inner = counting_;
  CountingAllocator outer(inner);
  const c10::DataPtr block = outer.allocate(100);
  EXPECT_EQ(outer.counters().live(), 100);
  EXPECT_EQ(counting_.counters().live(), 164);
}

TEST(CountersTest, reset_of_the_peak_loses_no_live_byte) {
  Counters counters;
  std::atomic<bool> done{false};
  std::thread worker([&] {
    for (int i = 0; i < 20000; ++i) {
      counters.add(10);
      if (i % 2) counters.subtract(10);
    }
    done = true;
  });
  int64_t largest = 0;
  while (!done) largest = std::max(largest, counters.reset_peak());
  worker.join();
  largest = std::max(largest, counters.peak());
  EXPECT_GE(counters.peak(), counters.live());
  EXPECT_EQ(counters.live(), 100000);
  EXPECT_EQ(largest, 100010);
}

}  // namespace
