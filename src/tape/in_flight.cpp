// SPDX-License-Identifier: BSD-3-Clause
#include "tape/in_flight.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace reprise::detail {
namespace {

// A send that failed keeps its bytes, and looks like one that takes for ever.
constexpr std::chrono::seconds kLong(2);

struct Flights {
  std::mutex mutex;
  std::condition_variable arrived;
  int64_t bytes = 0;
  int64_t arrivals = 0;
};

Flights& flights() {
  static auto& flights = *new Flights;  // stores may outlive main()
  return flights;
}

}  // namespace

std::shared_ptr<c10::Storage> in_flight(c10::Storage storage) {
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  const bool counts = storage.device().is_cpu();
  auto* owned = new c10::Storage(std::move(storage));
  if (counts) {
    const std::lock_guard<std::mutex> lock(flights().mutex);
    flights().bytes += bytes;
  }
  return {owned, [bytes, counts](c10::Storage* contents) {
            delete contents;  // only then is there room
            if (!counts) return;
            const std::lock_guard<std::mutex> lock(flights().mutex);
            flights().bytes -= bytes;
            ++flights().arrivals;
            flights().arrived.notify_all();
          }};
}

int64_t bytes_in_flight() {
  const std::lock_guard<std::mutex> lock(flights().mutex);
  return flights().bytes;
}

bool wait_for_arrival() {
  Flights& all = flights();
  std::unique_lock<std::mutex> lock(all.mutex);
  if (all.bytes == 0) return false;
  const int64_t before = all.arrivals;
  return all.arrived.wait_for(lock, kLong, [&] { return all.arrivals != before; });
}

}  // namespace reprise::detail
