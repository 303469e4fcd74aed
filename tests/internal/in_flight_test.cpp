// SPDX-License-Identifier: BSD-3-Clause
#include "tape/in_flight.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <reprise/store.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "tape/stored_storage.h"
#include "tests/child_process.h"
#include "tests/faulty_store.h"
#include "torch/below_autograd.h"

// Memory on its way to a store, and who waits for it to arrive.

namespace reprise {
namespace {

using detail::BelowAutograd;
using detail::bytes_in_flight;
using detail::StoredStorage;
using detail::wait_for_arrival;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kLong(5);

/// Sends that arrive when they are told to.
class GatedBackend : public StoreBackend {
 public:
  struct Arriving : StoredBlock {
    Arriving(std::shared_future<void> gate, Payload sent)
        : open(std::move(gate)), held(std::make_shared<Payload>(std::move(sent))) {
      thread = std::thread([gate = open, payload = held] {
        gate.wait();
        payload->data = nullptr;
      });
    }
    ~Arriving() override { thread.join(); }
    bool done() const override {
      return open.wait_for(milliseconds(0)) == std::future_status::ready;
    }
    void wait() override { open.wait(); }
    std::shared_ptr<const void> payload() const override { return nullptr; }
    std::unique_ptr<StoredFetch> fetch(std::shared_ptr<void>) override { return nullptr; }

    std::shared_future<void> open;
    std::shared_ptr<Payload> held;
    std::thread thread;
  };

  std::unique_ptr<StoredBlock> send(Payload payload) override {
    return std::make_unique<Arriving>(gate_, std::move(payload));
  }
  StoreStats stats() const override { return {}; }
  int64_t room() const override { return kNoLimit; }

  void open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> gate_ = promise_.get_future().share();
};

StoredStorage send_to(const Store& store, int64_t bytes) {
  const BelowAutograd below;
  return StoredStorage(store, torch::zeros({bytes}, torch::kUInt8).storage(), torch::kUInt8);
}

TEST(InFlight, IsWaitedForUntilItArrives) {
  const auto backend = std::make_shared<GatedBackend>();
  EXPECT_FALSE(wait_for_arrival(kLong));  // there is nothing
  const StoredStorage sent = send_to(Store(backend), 4096);
  EXPECT_EQ(bytes_in_flight(), 4096);
  EXPECT_FALSE(wait_for_arrival(milliseconds(50)));
  EXPECT_EQ(bytes_in_flight(), 4096);  // it may still come
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(200));
    backend->open();
  });
  EXPECT_TRUE(wait_for_arrival(kLong));
  later.join();
  EXPECT_EQ(bytes_in_flight(), 0);
}

TEST(InFlight, IsNotWaitedForOnceItHasFailed) {
  const Store failing = tests::faulty_store(HostStore(1 << 20), 1, {.sends = 1000});
  const auto backend = std::make_shared<GatedBackend>();
  const StoredStorage lost = send_to(failing, 4096), slow = send_to(Store(backend), 1024);
  EXPECT_FALSE(wait_for_arrival(milliseconds(200)));
  EXPECT_EQ(bytes_in_flight(), 1024);
  backend->open();
  while (bytes_in_flight() > 0) wait_for_arrival(kLong);
  const StoredStorage again = send_to(failing, 4096);
  EXPECT_FALSE(wait_for_arrival(kLong));  // long before that
}

TEST(InFlight, IsNotWaitedForByAProcessThatIsForkedOff) {
  const auto backend = std::make_shared<GatedBackend>();
  const StoredStorage sent = send_to(Store(backend), 4096);
  EXPECT_EQ(tests::status_of_fork([] {
              return bytes_in_flight() == 4096 && !wait_for_arrival(kLong) &&
                     bytes_in_flight() == 0;
            }),
            0);
  EXPECT_EQ(bytes_in_flight(), 4096);
  backend->open();
}

}  // namespace
}  // namespace reprise
