// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "meter/gauge.h"

namespace reprise::detail {

/// The gauge of an allocator that asks it for every block, and keeps with the block what it says.
class BlockGauge final : public Gauge {
 public:
  Epoch start() override;
  bool is_running(Epoch epoch) const override {
    return epoch_.load(std::memory_order_relaxed) == epoch;
  }
  void stop(Epoch epoch) override { epoch_.compare_exchange_strong(epoch, 0); }

  int64_t live() override { return live_.load(std::memory_order_relaxed); }
  int64_t peak() override { return peak_.load(std::memory_order_relaxed); }
  void reset_peak() override { peak_.store(live(), std::memory_order_relaxed); }

  void count_on(const c10::Storage& block) override;
  void discount(const c10::Storage& block) override;

  /// A block was made; returns what is to be said when it goes.
  Epoch add(int64_t bytes) {
    const Epoch epoch = epoch_.load(std::memory_order_relaxed);
    if (epoch == 0 || paused_.load(std::memory_order_relaxed) > 0) return 0;
    const int64_t live = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t old = peak_.load(std::memory_order_relaxed);
    while (old < live && !peak_.compare_exchange_weak(old, live, std::memory_order_relaxed)) {
    }
    return epoch;
  }

  void subtract(int64_t bytes, Epoch epoch) {
    if (epoch != 0 && is_running(epoch)) live_.fetch_sub(bytes, std::memory_order_relaxed);
  }

 private:
  void pause() override { ++paused_; }
  void resume() override { --paused_; }

  std::atomic<Epoch> epoch_{0};
  std::atomic<Epoch> last_{0};
  std::atomic<int> paused_{0};
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
};

}  // namespace reprise::detail
