// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "offload/channel.h"

namespace reprise::tests {

/// How many transfers of a thousand meet with each fault.
struct FaultRates {
  int fails = 0;        ///< EIO
  int full = 0;         ///< of writes: ENOSPC
  int interrupted = 0;  ///< EINTR, to be tried again
  int shorter = 0;      ///< moves a part
  int nothing = 0;      ///< moves nothing
  int flipped = 0;      ///< one bit changes on the way
  int lost = 0;         ///< of writes: said to be done, and not done
  int elsewhere = 0;    ///< of reads: from another place
  int late = 0;         ///< ends after others that began later
  int no_growth = 0;    ///< of growths: ENOSPC
};

/// A channel with faults from a fixed seed, in front of a real one.
class FaultyChannel : public detail::Channel {
 public:
  FaultyChannel(std::unique_ptr<detail::Channel> real, unsigned seed, FaultRates rates,
                std::atomic<int64_t>& injected)
      : real_(std::move(real)), random_(seed), rates_(rates), injected_(injected) {}

  int64_t alignment() const override { return real_->alignment(); }
  int64_t memory_alignment() const override { return real_->memory_alignment(); }
  int64_t growth() const override { return real_->growth(); }
  std::string path() const override { return "faulty " + real_->path(); }
  std::string place() const override { return real_->place(); }

  std::optional<StoreFault> grow(int64_t bytes) override {
    if (strikes(rates_.no_growth)) {
      return StoreFault{"cannot grow", place(), 0, "room", "none", "make some"};
    }
    std::optional<StoreFault> fault = real_->grow(bytes);
    if (!fault) end_ = bytes;
    return fault;
  }

  void submit(detail::Transfer& outer) override {
    if (strikes(rates_.fails)) return end(outer, -EIO);
    if (outer.write && strikes(rates_.full)) return end(outer, -ENOSPC);
    if (strikes(rates_.interrupted)) return end(outer, -EINTR);
    if (strikes(rates_.nothing)) return end(outer, 0);
    if (outer.write && strikes(rates_.lost)) return end(outer, outer.bytes);
    auto trip = std::make_unique<Trip>();
    trip->outer = &outer;
    trip->inner = outer;
    if (outer.bytes > alignment() && strikes(rates_.shorter)) {
      // The engine counts aligned units; what lies beyond them is to be moved again.
      const int64_t units = 1 + below(outer.bytes / alignment() - 1);
      trip->inner.bytes = units * alignment();
      trip->beyond = below(alignment());
    }
    trip->flip = strikes(rates_.flipped);
    if (outer.write && trip->flip) {
      // Not in the caller's memory.
      const auto bytes = static_cast<std::size_t>(trip->inner.bytes);
      trip->copy.reset(
          static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
      std::memcpy(trip->copy.get(), outer.data, bytes);
      trip->inner.data = trip->copy.get();
      flip(trip->inner);
    }
    if (!outer.write && strikes(rates_.elsewhere)) {
      trip->inner.offset = below((end_ - trip->inner.bytes) / alignment() + 1) * alignment();
    }
    trip->late = strikes(rates_.late);
    trips_.push_back(std::move(trip));
    real_->submit(trips_.back()->inner);
  }

  detail::Transfer* reap() override {
    while (true) {
      if (!ended_.empty()) return pop(ended_);
      if (trips_.empty()) return pop(late_);
      detail::Transfer* const inner = real_->reap();
      const auto found = std::find_if(trips_.begin(), trips_.end(),
                                      [&](const auto& trip) { return &trip->inner == inner; });
      const std::unique_ptr<Trip> trip = std::move(*found);
      trips_.erase(found);
      if (inner->result > 0 && trip->flip && !inner->write) flip(*inner);
      if (inner->result > 0) inner->result += trip->beyond;
      trip->outer->result = inner->result;
      if (!trip->late) return trip->outer;
      late_.push_back(trip->outer);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  struct Freer {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Trip {
    detail::Transfer* outer = nullptr;
    detail::Transfer inner;
    std::unique_ptr<std::byte[], Freer> copy;
    int64_t beyond = 0;
    bool flip = false, late = false;
  };

  bool strikes(int rate) {
    if (static_cast<int>(random_() % 1000) >= rate) return false;
    ++injected_;
    return true;
  }

  int64_t below(int64_t bound) {
    return bound <= 1 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }

  void flip(detail::Transfer& transfer) {
    transfer.data[below(transfer.bytes)] ^= std::byte{1} << (random_() % 8);
  }

  void end(detail::Transfer& transfer, int64_t result) {
    transfer.result = result;
    ended_.push_back(&transfer);
  }

  static detail::Transfer* pop(std::deque<detail::Transfer*>& queue) {
    detail::Transfer* const first = queue.front();
    queue.pop_front();
    return first;
  }

  const std::unique_ptr<detail::Channel> real_;
  std::mt19937_64 random_;
  const FaultRates rates_;
  std::atomic<int64_t>& injected_;
  int64_t end_ = 0;
  std::vector<std::unique_ptr<Trip>> trips_;
  std::deque<detail::Transfer*> ended_, late_;
};

}  // namespace reprise::tests
