// SPDX-License-Identifier: BSD-3-Clause
#include "profile/trace_store.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <reprise/trace_step.h>

#include <ATen/Parallel.h>

#include "base/median.h"

namespace reprise {
namespace {

constexpr int64_t kSmall = 4096;
constexpr int kTimes = 9;
constexpr int64_t kLeastBytes = int64_t{64} << 10;  // smaller values take longer to ask for

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
  return detail::median(std::move(times));
}

}  // namespace

namespace detail {

double work_per_byte(const StoreStats& before, const StoreStats& now) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (at::get_num_threads() < cores) return 0;
  const int64_t bytes = now.bytes_moved() - before.bytes_moved();
  if (bytes <= 0) return 0;
  return (now.processor_ms - before.processor_ms) * 1000 / static_cast<double>(bytes);
}

}  // namespace detail

TracedStore trace_store(const Store& store) {
  const StoreStats before = store.stats();
  const Bandwidth bandwidth = measure_bandwidth(store);
  TracedStore traced;
  traced.send_bytes_per_us = bandwidth.send / 1e6;
  traced.fetch_bytes_per_us = bandwidth.fetch / 1e6;
  traced.latency_us = latency_of(store);
  traced.least_bytes = kLeastBytes;
  traced.work_us_per_byte = detail::work_per_byte(before, store.stats());
  return traced;
}

}  // namespace reprise
