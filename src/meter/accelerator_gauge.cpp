// SPDX-License-Identifier: BSD-3-Clause
#include "meter/accelerator_gauge.h"

#include <algorithm>

#include "meter/accelerator_memory.h"

namespace reprise::detail {

Gauge::Epoch AcceleratorGauge::start() {
  memory_.take_peak();  // what was before is no peak of this
  const int64_t live = memory_.live();
  const std::lock_guard<std::mutex> lock(mutex_);
  base_ = live;
  peak_ = at_last_look_ = gone_ = 0;
  noted_.clear();
  epoch_ = ++last_;
  return last_;
}

void AcceleratorGauge::stop(Epoch epoch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (epoch_ != epoch) return;
  epoch_ = 0;
  noted_.clear();
}

int64_t AcceleratorGauge::live() {
  const int64_t live = memory_.live();
  const std::lock_guard<std::mutex> lock(mutex_);
  return live - base_ + correction();
}

int64_t AcceleratorGauge::peak() {
  memory_.take_peak();  // it tells saw()
  const std::lock_guard<std::mutex> lock(mutex_);
  return peak_;
}

void AcceleratorGauge::reset_peak() {
  memory_.take_peak();
  const int64_t now = live();
  const std::lock_guard<std::mutex> lock(mutex_);
  peak_ = now;
}

void AcceleratorGauge::saw(int64_t device_peak) {
  if (epoch_ == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (paused_ > 0) {
    at_last_look_ = correction();
    return;
  }
  peak_ = std::max(peak_, device_peak - base_ + at_last_look_);
  at_last_look_ = correction();
}

void AcceleratorGauge::note(const c10::Storage& block, bool counts) {
  if (epoch_ == 0 || !block || block.nbytes() == 0 || !memory_.owns(block.data_ptr())) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  // What was said first stands: a block from before the start, or one that is left out already.
  noted_.try_emplace(
      block.unsafeGetStorageImpl(),
      Noted{block.getWeakStorageImpl(), static_cast<int64_t>(block.nbytes()), counts});
}

/// What live bytes are short of the step's.
int64_t AcceleratorGauge::correction() {
  int64_t discounted = 0;
  std::erase_if(noted_, [&](const auto& entry) {
    const Noted& noted = entry.second;
    if (noted.block.expired()) {
      if (noted.counts) gone_ += noted.bytes;
      return true;
    }
    if (!noted.counts) discounted += noted.bytes;
    return false;
  });
  return gone_ - discounted;
}

}  // namespace reprise::detail
