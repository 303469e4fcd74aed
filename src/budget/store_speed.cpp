// SPDX-License-Identifier: BSD-3-Clause
#include "budget/store_speed.h"

#include <cmath>
#include <utility>

#include <reprise/trace_step.h>

#include "profile/trace_store.h"

namespace reprise::detail {
namespace {

constexpr int64_t kEnough = int64_t{64} << 20;  // moved, to say something of the speed
constexpr double kDrift = 0.3;

/// The new figure, if it is another one.
void correct_by(double& figure, double now) {
  if (std::abs(now - figure) > kDrift * figure) figure = now;
}

void correct_rate(double& rate, int64_t bytes, double milliseconds) {
  if (bytes < kEnough || milliseconds <= 0) return;
  correct_by(rate, static_cast<double>(bytes) / (milliseconds * 1000));
}

}  // namespace

std::optional<TracedStore> StoreSpeed::measured() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!std::exchange(tried_, true)) measure();
  correct();
  return speed_;
}

std::optional<TracedStore> StoreSpeed::known() {
  const std::lock_guard<std::mutex> lock(mutex_);
  correct();
  return speed_;
}

void StoreSpeed::measure() {
  try {
    speed_ = trace_store(store_);
  } catch (const StoreError&) {
  }
  seen_ = store_.stats();
}

void StoreSpeed::correct() {
  if (!speed_) return;
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
