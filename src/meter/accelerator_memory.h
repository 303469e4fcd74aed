// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <mutex>

#include "meter/accelerator_gauge.h"
#include "meter/limited_memory.h"

namespace reprise::detail {

/// An accelerator's memory. Nothing is counted ahead: whoever runs an operator says before it what
/// it will need, see CallRoom, which looks at every operator of the process while a limit is in
/// force here.
class AcceleratorMemory final : public LimitedMemory {
 public:
  /// REQUIRES: measurable_accelerator(device) == device.
  explicit AcceleratorMemory(c10::Device device) : device_(device), gauge_(*this) {}

  c10::Device device() const override { return device_; }
  void wait() const override;
  AcceleratorGauge& gauge() override { return gauge_; }

  int64_t live() const override;
  int64_t reset_limited_peak() override;
  bool try_reserve(int64_t bytes) override { return bytes <= limit() - live(); }
  void reserve_above(int64_t) override {}
  void cancel(int64_t) override {}
  bool owns(const c10::DataPtr& block) const override;
  void set_limit(int64_t limit) override;

  /// The largest live bytes since this was last called, by whomever. Starts the allocator's own
  /// peak anew; that of Meter, of the gauge and of the operator that runs on this thread go on.
  int64_t take_peak();

  /// That the device could still give to its allocator; as many as there are where it does not say.
  int64_t free_bytes() const;

  /// Of the current device; null where there is no accelerator with statistics.
  static AcceleratorMemory* in_use();

  /// Of an accelerator with its index. The same object each time, which lives for ever.
  static AcceleratorMemory& of(c10::Device device);

 private:
  const c10::Device device_;
  AcceleratorGauge gauge_;
  std::atomic<int64_t> limited_peak_{0};
  std::mutex mutex_;
  bool watched_ = false;  // under mutex_: operators are looked at because of this
};

}  // namespace reprise::detail
