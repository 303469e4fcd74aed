// SPDX-License-Identifier: BSD-3-Clause
#include "budget/store_speed.h"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "base/median.h"

namespace reprise::detail {
namespace {

constexpr int64_t kSmall = 4096;
constexpr int kTimes = 9;
constexpr int64_t kLeastBytes = int64_t{64} << 10;  // smaller values take longer to ask for
constexpr int64_t kEnough = int64_t{64} << 20;      // moved, to say something of the speed
constexpr double kDrift = 0.3;

/// Of one small transfer out and back, in microseconds: the middle one of a few.
double latency_of(const Store& store) {
  std::vector<double> times;
  for (int i = 0; i < kTimes; ++i) {
    const auto bytes = std::make_shared<std::vector<std::byte>>(kSmall);
    Payload payload;
    payload.data = std::shared_ptr<const void>(bytes, bytes->data());
    payload.bytes = kSmall;
    const auto start = std::chrono::steady_clock::now();
    Block block = store.send(std::move(payload));
    block.wait();
    block.fetch(std::shared_ptr<void>(bytes, bytes->data())).wait();
    const auto elapsed = std::chrono::steady_clock::now() - start;
    times.push_back(std::chrono::duration<double, std::micro>(elapsed).count() / 2);
  }
  return median(std::move(times));
}

/// The new figure, if it is another one.
void correct_by(double& figure, double now) {
  if (std::abs(now - figure) > kDrift * figure) figure = now;
}

void correct_rate(double& rate, int64_t bytes, double milliseconds) {
  if (bytes < kEnough || milliseconds <= 0) return;
  correct_by(rate, static_cast<double>(bytes) / (milliseconds * 1000));
}

int64_t moved(const StoreStats& stats) { return stats.bytes_sent + stats.bytes_fetched; }

/// What the store's threads take of the processor is lost to the step where that computes on all
/// cores: an operator waits for the slowest of its threads.
double work_per_byte(const StoreStats& before, const StoreStats& now) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (at::get_num_threads() < cores) return 0;
  const int64_t bytes = moved(now) - moved(before);
  if (bytes <= 0) return 0;
  return (now.processor_ms - before.processor_ms) * 1000 / static_cast<double>(bytes);
}

}  // namespace

std::optional<TracedStore> StoreSpeed::measured() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(tried_, true)) return speed_;
  try {
    const StoreStats before = store_.stats();
    const Bandwidth bandwidth = measure_bandwidth(store_);
    TracedStore speed;
    speed.send_bytes_per_us = bandwidth.send / 1e6;
    speed.fetch_bytes_per_us = bandwidth.fetch / 1e6;
    speed.latency_us = latency_of(store_);
    speed.least_bytes = kLeastBytes;
    speed.work_us_per_byte = work_per_byte(before, store_.stats());
    if (speed.send_bytes_per_us > 0 && speed.fetch_bytes_per_us > 0) speed_ = speed;
  } catch (const StoreError&) {
  }
  seen_ = store_.stats();
  return speed_;
}

std::optional<TracedStore> StoreSpeed::known() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (speed_) correct();
  return speed_;
}

void StoreSpeed::correct() {
  const StoreStats now = store_.stats();
  const int64_t sent = now.bytes_sent - seen_.bytes_sent;
  const int64_t fetched = now.bytes_fetched - seen_.bytes_fetched;
  if (sent < kEnough && fetched < kEnough) return;
  correct_rate(speed_->send_bytes_per_us, sent, now.send_ms - seen_.send_ms);
  correct_rate(speed_->fetch_bytes_per_us, fetched, now.fetch_ms - seen_.fetch_ms);
  correct_by(speed_->work_us_per_byte, work_per_byte(seen_, now));
  seen_ = now;
}

}  // namespace reprise::detail
