// SPDX-License-Identifier: BSD-3-Clause
#include "tape/in_flight.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace reprise::detail {

struct Flights {
  /// Never destroyed: stores may outlive main().
  static Flights& all() {
    static auto& flights = *new Flights;
    return flights;
  }

  void add(Flight& flight) {
    const std::lock_guard<std::mutex> lock(mutex);
    flight.number_ = ++begun;
    under_way.push_back(&flight);
    bytes += flight.bytes_;
  }

  void end(Flight& flight) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!flight.failed_) leave(flight);
    ++arrivals;
    arrived.notify_all();
  }

  // With the lock:
  void leave(Flight& flight) {
    under_way.erase(std::find(under_way.begin(), under_way.end(), &flight));
    bytes -= flight.bytes_;
  }

  /// A send that failed keeps its bytes, and looks like one that takes for ever; so does one of the
  /// process that this one was forked off. Neither is a store asked under the lock, which has locks
  /// of its own, nor does a block end there, whose flight would want this one.
  void look_for_failures(std::unique_lock<std::mutex>& lock) {
    std::vector<std::pair<int64_t, std::shared_ptr<Block>>> blocks;
    std::vector<int64_t> failed;
    for (const Flight* flight : under_way) {
      blocks.emplace_back(flight->number_, flight->block_.lock());
      if (!flight->process_.is_this()) failed.push_back(flight->number_);
    }
    lock.unlock();
    for (const auto& [number, block] : blocks) {
      if (block && has_failed(*block)) failed.push_back(number);
    }
    blocks.clear();
    lock.lock();
    for (const int64_t number : failed) {
      const auto found = std::find_if(under_way.begin(), under_way.end(),
                                      [&](const Flight* each) { return each->number_ == number; });
      if (found == under_way.end()) continue;
      (*found)->failed_ = true;
      leave(**found);
    }
  }

  static bool has_failed(Block& block) {
    if (!block.done()) return false;
    try {
      block.wait();
      return false;
    } catch (const StoreError&) {
      return true;
    }
  }

  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<Flight*> under_way;  // that have not failed
  int64_t bytes = 0;               // of these
  int64_t begun = 0;
  int64_t arrivals = 0;
};

Flight::Flight(c10::Storage contents)
    : contents_(std::move(contents)),
      bytes_(static_cast<int64_t>(contents_.nbytes())),
      counts_(contents_.device().is_cpu()) {
  if (counts_) Flights::all().add(*this);
}

Flight::~Flight() {
  contents_ = c10::Storage();  // only then is there room
  if (counts_) Flights::all().end(*this);
}

void Flight::is_for(const std::shared_ptr<Block>& block) {
  const std::lock_guard<std::mutex> lock(Flights::all().mutex);
  block_ = block;
}

int64_t bytes_in_flight() {
  const std::lock_guard<std::mutex> lock(Flights::all().mutex);
  return Flights::all().bytes;
}

bool wait_for_arrival(std::chrono::milliseconds most) {
  constexpr std::chrono::milliseconds kLook(10);
  const auto end = std::chrono::steady_clock::now() + most;
  Flights& all = Flights::all();
  std::unique_lock<std::mutex> lock(all.mutex);
  const int64_t before = all.arrivals;
  while (!all.under_way.empty() && std::chrono::steady_clock::now() < end) {
    if (all.arrived.wait_for(lock, kLook, [&] { return all.arrivals != before; })) return true;
    all.look_for_failures(lock);
  }
  return all.arrivals != before;
}

}  // namespace reprise::detail
