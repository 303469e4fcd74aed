// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

// How many bytes a step has made that are still there, apart from all else in the process: the
// allocator asks it for every block. What a library makes for itself meanwhile (replays) is left
// out. One measurement at a time in a process: who starts one ends that of another.

namespace reprise::detail {

class Gauge {
 public:
  /// Which measurement a block belongs to; 0 is none.
  using Epoch = uint32_t;

  /// Counts from 0, and only blocks made from now on.
  Epoch start() {
    const Epoch epoch = ++last_;
    epoch_.store(epoch, std::memory_order_relaxed);
    live_.store(0, std::memory_order_relaxed);
    peak_.store(0, std::memory_order_relaxed);
    return epoch;
  }

  /// Whether nobody has started another one since.
  bool is_running(Epoch epoch) const { return epoch_.load(std::memory_order_relaxed) == epoch; }

  void stop(Epoch epoch) { epoch_.compare_exchange_strong(epoch, 0); }

  int64_t live() const { return live_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  void reset_peak() { peak_.store(live(), std::memory_order_relaxed); }

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

  /// Blocks that are made meanwhile, on any thread, do not count.
  class Pause {
   public:
    explicit Pause(Gauge& gauge) : gauge_(gauge) { ++gauge_.paused_; }
    ~Pause() { --gauge_.paused_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Gauge& gauge_;
  };

 private:
  std::atomic<Epoch> epoch_{0};
  std::atomic<Epoch> last_{0};
  std::atomic<int> paused_{0};
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
};

}  // namespace reprise::detail
