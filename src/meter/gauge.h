// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <c10/core/Storage.h>

// How many bytes a step has made that are still there, apart from all else on the device. What a
// library makes for itself meanwhile (replays) is left out. One measurement at a time on a device:
// who starts one ends that of another.

namespace reprise::detail {

/// Thread-safe. count_on() and discount() take no lock but the gauge's own: they may be called with
/// any other held, an allocator's too.
class Gauge {
 public:
  /// Which measurement; 0 is none.
  using Epoch = uint32_t;

  virtual ~Gauge() = default;

  /// Counts from 0, and only blocks made from now on.
  virtual Epoch start() = 0;
  /// Whether nobody has started another one since.
  virtual bool is_running(Epoch epoch) const = 0;
  virtual void stop(Epoch epoch) = 0;

  virtual int64_t live() = 0;
  /// The largest live() since the start, or since this was last reset.
  virtual int64_t peak() = 0;
  virtual void reset_peak() = 0;

  /// This block, if it is counted, counts on, whenever it goes. One from before the measurement is
  /// not missed when it goes: who knows of such blocks says so.
  virtual void count_on(const c10::Storage& block) = 0;
  /// This block counts no longer, though it is still there.
  virtual void discount(const c10::Storage& block) = 0;

  /// Blocks that are made meanwhile, on any thread, do not count; what is left of them in the end
  /// must be discounted.
  class Pause {
   public:
    explicit Pause(Gauge& gauge) : gauge_(gauge) { gauge_.pause(); }
    ~Pause() { gauge_.resume(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Gauge& gauge_;
  };

 protected:
  virtual void pause() = 0;
  virtual void resume() = 0;
};

}  // namespace reprise::detail
