// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "meter/gauge.h"

namespace reprise::detail {

class AcceleratorMemory;

/// The gauge of an accelerator, whose blocks are not ours: what its allocator says is live, put
/// right by the blocks of which something is known. Exact to what the allocator rounds blocks up
/// by, where it is looked at before and after each operator: of the time between two looks, the
/// largest live bytes are put right as things stood at the first. Operators let go of nothing that
/// they were given, and between them nothing is made.
class AcceleratorGauge final : public Gauge {
 public:
  /// `memory` outlives this.
  explicit AcceleratorGauge(AcceleratorMemory& memory) : memory_(memory) {}

  Epoch start() override;
  bool is_running(Epoch epoch) const override { return epoch_.load() == epoch; }
  void stop(Epoch epoch) override;

  int64_t live() override;
  int64_t peak() override;
  void reset_peak() override;

  void count_on(const c10::Storage& block) override { note(block, /*counts=*/true); }
  void discount(const c10::Storage& block) override { note(block, /*counts=*/false); }

  /// The device's live bytes have been as many since somebody last looked.
  void saw(int64_t device_peak);

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  /// A block that counts though it may be gone, or does not though it may be there. By its address,
  /// which nobody else gets as long as it is noted here.
  struct Noted {
    WeakStorage block;
    int64_t bytes;
    bool counts;
  };

  void pause() override { ++paused_; }
  void resume() override { --paused_; }
  void note(const c10::Storage& block, bool counts);
  int64_t correction();

  AcceleratorMemory& memory_;
  std::atomic<Epoch> epoch_{0};
  std::atomic<int> paused_{0};

  std::mutex mutex_;  // under it, the allocator is not asked: it may be what calls
  Epoch last_ = 0;
  int64_t base_ = 0;  // what the device's allocator said at the start
  int64_t peak_ = 0;
  int64_t at_last_look_ = 0;  // correction()
  int64_t gone_ = 0;          // bytes of noted blocks that count and are gone
  std::unordered_map<const void*, Noted> noted_;
};

}  // namespace reprise::detail
