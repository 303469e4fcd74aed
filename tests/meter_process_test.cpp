// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <iostream>
#include <string>

#include <reprise/error.h>
#include <reprise/meter.h>

#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

// What changes the whole process: each test runs in a child, which starts this program anew.

namespace {

using reprise::Meter;
using reprise::PeakScope;

#define REQUIRE(condition)                                    \
  if (!(condition)) {                                         \
    std::cerr << "line " << __LINE__ << ": " #condition "\n"; \
    std::_Exit(1);                                            \
  }                                                           \
  static_assert(true)

#define EXPECT_PASSES_IN_CHILD(function) \
  EXPECT_EXIT((function(), std::_Exit(0)), testing::ExitedWithCode(0), "")

bool refused(c10::Device device, const std::string& why) {
  try {
    Meter meter(device);
  } catch (const reprise::UsageError& error) {
    std::cerr << error.what() << '\n';
    return std::string(error.what()).find(why) != std::string::npos;
  }
  return false;
}

class MeterDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void runs_without_the_meter() {
  REQUIRE(!Meter::installed());
  REQUIRE(c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator());
  REQUIRE(torch::ones({10}).sum().item<float>() == 10);
  REQUIRE(refused(c10::kCPU, "REPRISE_METER=0"));
}

TEST_F(MeterDeathTest, environment_variable_leaves_it_out) {
  setenv("REPRISE_METER", "0", 1);
  EXPECT_PASSES_IN_CHILD(runs_without_the_meter);
  unsetenv("REPRISE_METER");
}

void sees_another_allocator() {
  const Meter meter;
  const int64_t base = meter.live();
  auto before = torch::ones({100});
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator());
  REQUIRE(!Meter::installed());
  REQUIRE(refused(c10::kCPU, "another allocator"));
  const auto after = torch::ones({100});
  REQUIRE(meter.live() - base == 400);
  before.reset();
  REQUIRE(meter.live() == base);
}

TEST_F(MeterDeathTest, another_allocator_set_over_it_is_seen) {
  EXPECT_PASSES_IN_CHILD(sees_another_allocator);
}

// An accelerator with eight devices and no memory: its statistics are what the test says.
class FakeDeviceAllocator final : public c10::DeviceAllocator {
 public:
  void take(int64_t n) { (n > 0 ? stat().increase(n) : stat().decrease(-n)); }
  c10::CachingAllocator::Stat& stat() { return stats_.allocated_bytes[0]; }

  bool ready = false;

  c10::DataPtr allocate(size_t) override { return {}; }
  void copy_data(void*, const void*, size_t) const override {}
  bool initialized() override { return ready; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    return stats_;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { stat().reset_peak(); }

 private:
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

struct FakeHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
};

void measures_an_accelerator() {
  static FakeHooks hooks;
  static c10::impl::FakeGuardImpl<c10::DeviceType::PrivateUse1> guard;
  static FakeDeviceAllocator allocator;
  const c10::Device device(c10::DeviceType::PrivateUse1);
  c10::register_privateuse1_backend("fake");
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::impl::device_guard_impl_registry[static_cast<size_t>(device.type())].store(&guard);
  REQUIRE(refused(device, "no statistics"));
  c10::SetAllocator(device.type(), &allocator);
  REQUIRE(refused(c10::Device(device.type(), 8), "there are 8"));
  REQUIRE(refused(c10::Device("cuda:0"), "accelerator of this process is"));

  const Meter meter(device);
  REQUIRE(meter.device().index() == 0);
  REQUIRE(meter.stats().peak == 0 && meter.reset_peak() == 0);  // not yet initialized
  allocator.ready = true;
  const PeakScope outer(meter);
  allocator.take(500);
  allocator.take(-400);
  REQUIRE(meter.live() == 100 && outer.peak_above_base() == 500);
  {
    const PeakScope inner(meter);
    allocator.take(50);
    REQUIRE(inner.base() == 100 && inner.peak_above_base() == 50);
    allocator.take(-50);
  }
  REQUIRE(allocator.stat().peak == 150);
  REQUIRE(outer.peak_above_base() == 500);
  {
    const PeakScope inner(meter);
    allocator.take(700);
    allocator.take(-700);
    REQUIRE(inner.peak() == 800);
  }
  REQUIRE(outer.peak() == 800);
  REQUIRE(meter.stats().allocated_total == 1250 && meter.stats().freed_total == 1150);
  REQUIRE(meter.reset_peak() == 800);
  REQUIRE(meter.peak() == 100);
}

TEST_F(MeterDeathTest, scopes_on_an_accelerator_keep_the_outer_peak) {
  EXPECT_PASSES_IN_CHILD(measures_an_accelerator);
}

}  // namespace
