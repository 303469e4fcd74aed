// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include <reprise/store.h>

// A store whose sends and fetches fail at random, from a fixed seed: for whoever uses stores.

namespace reprise::tests {

struct FaultyStoreRates {
  int sends = 0;  ///< of a thousand: the block says that it has not arrived, and keeps its payload
  int fetches = 0;           ///< of a thousand: fail, and leave something else in the target
  int throwing_sends = 0;    ///< of a thousand: send() itself throws
  int throwing_fetches = 0;  ///< of a thousand: fetch() itself does
  int full = 0;              ///< of a thousand times that somebody asks: no room
};

class FaultyBackend : public StoreBackend, public std::enable_shared_from_this<FaultyBackend> {
 public:
  FaultyBackend(Store real, unsigned seed, FaultyStoreRates rates)
      : real_(std::move(real)), random_(seed), rates_(rates) {}

  std::unique_ptr<StoredBlock> send(Payload payload) override {
    if (strikes(rates_.throwing_sends)) throw error("cannot begin to send");
    if (strikes(rates_.sends)) return std::make_unique<Kept>(std::move(payload));
    const int64_t bytes = payload.bytes;
    return std::make_unique<Sent>(shared_from_this(), real_.backend()->send(std::move(payload)),
                                  bytes);
  }

  StoreStats stats() const override {
    StoreStats stats = real_.stats();
    stats.path = "faulty, " + stats.path;
    stats.faults += injected_;
    return stats;
  }
  int64_t room() const override { return strikes(rates_.full) ? 0 : real_.room(); }
  bool lossy() const override { return real_.lossy(); }

  int64_t injected() const { return injected_; }

 private:
  static StoreError error(const char* doing) {
    return StoreError({doing, "a faulty store", 0, "no fault", "an injected one", "use another"});
  }

  struct Failed : StoredFetch {
    bool done() const override { return true; }
    void wait() override { throw error("cannot fetch"); }
  };

  struct Copied : StoredFetch {
    bool done() const override { return true; }
    void wait() override {}
  };

  struct Kept : StoredBlock {
    explicit Kept(Payload payload) : kept(std::move(payload)) {}
    bool done() const override { return true; }
    void wait() override { throw error("cannot send"); }
    std::shared_ptr<const void> payload() const override { return kept.data; }
    std::unique_ptr<StoredFetch> fetch(std::shared_ptr<void> target) override {
      std::memcpy(target.get(), kept.data.get(), static_cast<std::size_t>(kept.bytes));
      return std::make_unique<Copied>();
    }
    const Payload kept;
  };

  struct Sent : StoredBlock {
    Sent(std::shared_ptr<FaultyBackend> from, std::unique_ptr<StoredBlock> block, int64_t size)
        : store(std::move(from)), real(std::move(block)), bytes(size) {}
    bool done() const override { return real->done(); }
    void wait() override { real->wait(); }
    std::shared_ptr<const void> payload() const override { return real->payload(); }
    std::unique_ptr<StoredFetch> fetch(std::shared_ptr<void> target) override {
      if (store->strikes(store->rates_.throwing_fetches)) throw error("cannot begin to fetch");
      if (!store->strikes(store->rates_.fetches)) return real->fetch(std::move(target));
      std::memset(target.get(), 0x77, static_cast<std::size_t>(bytes));
      return std::make_unique<Failed>();
    }
    const std::shared_ptr<FaultyBackend> store;
    const std::unique_ptr<StoredBlock> real;
    const int64_t bytes;
  };

  bool strikes(int rate) const {
    if (rate == 0) return false;
    const std::lock_guard lock(mutex_);
    if (static_cast<int>(random_() % 1000) >= rate) return false;
    ++injected_;
    return true;
  }

  const Store real_;
  mutable std::mutex mutex_;
  mutable std::mt19937_64 random_;
  const FaultyStoreRates rates_;
  mutable std::atomic<int64_t> injected_ = 0;
};

inline Store faulty_store(Store real, unsigned seed, FaultyStoreRates rates) {
  return Store(std::make_shared<FaultyBackend>(std::move(real), seed, rates));
}

}  // namespace reprise::tests
