// SPDX-License-Identifier: BSD-3-Clause
#include "meter/block_gauge.h"

#include "meter/counting_allocator.h"

namespace reprise::detail {

Gauge::Epoch BlockGauge::start() {
  const Epoch epoch = ++last_;
  epoch_.store(epoch, std::memory_order_relaxed);
  live_.store(0, std::memory_order_relaxed);
  peak_.store(0, std::memory_order_relaxed);
  return epoch;
}

void BlockGauge::count_on(const c10::Storage& contents) {
  if (!contents) return;
  if (auto* block = CountingAllocator::block_of(contents.data_ptr())) block->epoch = 0;
}

void BlockGauge::discount(const c10::Storage& contents) {
  if (!contents) return;
  auto* block = CountingAllocator::block_of(contents.data_ptr());
  if (block == nullptr || block->epoch == 0 || !is_running(block->epoch)) return;
  subtract(static_cast<int64_t>(block->bytes), block->epoch);
  block->epoch = 0;
}

}  // namespace reprise::detail
