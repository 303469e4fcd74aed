// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <reprise/store.h>

// A store without threads: copies in memory. When a block arrives follows from a seed, so programs
// that use it run the same again; and it notices who writes to memory that it was given to send.

namespace reprise::tests {

class CopyBackend : public StoreBackend, public std::enable_shared_from_this<CopyBackend> {
 public:
  /// `late`: blocks of a thousand that arrive only some calls later, or never.
  CopyBackend(uint64_t seed, int late) : random_(seed), late_(late) {}

  std::unique_ptr<StoredBlock> send(Payload payload) override {
    let_some_arrive();
    auto copy = std::make_shared<Copy>(std::move(payload));
    {
      const std::lock_guard lock(mutex_);
      ++stats_.blocks_sent;
      stats_.bytes_sent += copy->bytes;
      ++stats_.blocks_held;
      stats_.bytes_held += copy->bytes;
      if (static_cast<int>(random_() % 1000) < late_) {
        under_way_.push_back(copy);
        return std::make_unique<Sent>(shared_from_this(), std::move(copy));
      }
    }
    arrive(*copy);
    return std::make_unique<Sent>(shared_from_this(), std::move(copy));
  }

  StoreStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  int64_t room() const override { return kNoLimit; }

  /// Blocks whose memory was written to before they had arrived.
  int64_t written_to() const { return written_to_; }

 private:
  struct Copy {
    explicit Copy(Payload payload)
        : bytes(payload.bytes),
          contents(static_cast<const std::byte*>(payload.data.get()),
                   static_cast<const std::byte*>(payload.data.get()) + payload.bytes),
          payload(std::move(payload.data)) {}
    const int64_t bytes;
    const std::vector<std::byte> contents;
    std::mutex mutex;
    std::shared_ptr<const void> payload;  // null: arrived
  };

  struct Fetched : StoredFetch {
    bool done() const override { return true; }
    void wait() override {}
  };

  struct Sent : StoredBlock {
    Sent(std::shared_ptr<CopyBackend> from, std::shared_ptr<Copy> sent)
        : store(std::move(from)), copy(std::move(sent)) {}
    ~Sent() override {
      const std::lock_guard lock(store->mutex_);
      --store->stats_.blocks_held;
      store->stats_.bytes_held -= copy->bytes;
    }
    bool done() const override { return payload() == nullptr; }
    void wait() override { store->arrive(*copy); }
    std::shared_ptr<const void> payload() const override {
      const std::lock_guard lock(copy->mutex);
      return copy->payload;
    }
    std::unique_ptr<StoredFetch> fetch(std::shared_ptr<void> target) override {
      store->let_some_arrive();
      std::memcpy(target.get(), copy->contents.data(), copy->contents.size());
      const std::lock_guard lock(store->mutex_);
      ++store->stats_.blocks_fetched;
      store->stats_.bytes_fetched += copy->bytes;
      return std::make_unique<Fetched>();
    }
    const std::shared_ptr<CopyBackend> store;
    const std::shared_ptr<Copy> copy;
  };

  void arrive(Copy& copy) {
    std::shared_ptr<const void> payload;
    {
      const std::lock_guard lock(copy.mutex);
      payload.swap(copy.payload);
    }
    if (payload && std::memcmp(payload.get(), copy.contents.data(), copy.contents.size()) != 0) {
      ++written_to_;
    }
  }

  void let_some_arrive() {
    std::vector<std::shared_ptr<Copy>> arriving;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(under_way_, [&](const std::weak_ptr<Copy>& copy) {
        if (!copy.expired() && random_() % 3 != 0) return false;
        if (auto alive = copy.lock()) arriving.push_back(std::move(alive));
        return true;
      });
    }
    for (const auto& copy : arriving) arrive(*copy);
  }

  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  const int late_;
  StoreStats stats_;
  std::vector<std::weak_ptr<Copy>> under_way_;
  std::atomic<int64_t> written_to_ = 0;
};

}  // namespace reprise::tests
