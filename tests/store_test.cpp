// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <reprise/store.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/faulty_store.h"
#include "tests/store_support.h"
#include "tests/temp_folder.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::payload_of;
using tests::payloads_alive;
using tests::soon;
using tests::Target;

constexpr int64_t kMiB = int64_t{1} << 20;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Fetch fetch(const Block& block, const Target& target) { return block.fetch(target.memory()); }

// --- every store ---------------------------------------------------------------------------------

struct Kind {
  const char* name;
  std::function<Store(const std::string& folder)> make;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

DiskOptions disk_options(bool direct, bool io_uring) {
  DiskOptions options;
  options.direct = direct;
  options.io_uring = io_uring;
  return options;
}

/// Stays silent about CPU-only machines, since memory is given.
HostStore host_store(int64_t bytes) {
  HostOptions options;
  options.allocate = [](int64_t size) {
    return std::shared_ptr<void>(new std::byte[static_cast<std::size_t>(size)],
                                 [](void* memory) { delete[] static_cast<std::byte*>(memory); });
  };
  return HostStore(bytes, options);
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"Disk", [](const std::string& folder) { return DiskStore(folder); }},
      {"DiskThreads",
       [](const std::string& folder) { return DiskStore(folder, disk_options(true, false)); }},
      {"DiskBuffered",
       [](const std::string& folder) { return DiskStore(folder, disk_options(false, true)); }},
      {"DiskBufferedThreads",
       [](const std::string& folder) { return DiskStore(folder, disk_options(false, false)); }},
      {"Host", [](const std::string&) { return host_store(256 * kMiB); }},
      {"CompressedHost",
       [](const std::string&) { return CompressedStore(host_store(256 * kMiB)); }},
      {"CompressedDisk",
       [](const std::string& folder) {
         CompressedOptions options;
         options.threads = 2;
         return CompressedStore(DiskStore(folder), options);
       }},
      {"CompressedTwice",
       [](const std::string&) { return CompressedStore(CompressedStore(host_store(256 * kMiB))); }},
  };
  return all;
}

class EveryStore : public ::testing::TestWithParam<Kind> {
 protected:
  Store make() const { return GetParam().make(folder.path("")); }
  const tests::TempFolder folder;
};

INSTANTIATE_TEST_SUITE_P(Stores, EveryStore, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryStore, GivesBackWhatItTook) {
  const Store store = make();
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4096}, int64_t{4097},
                              kMiB, kMiB + 1, 5 * kMiB + 4096}) {
    for (const int64_t shift : {0, 1, 64}) {
      SCOPED_TRACE(std::to_string(bytes) + " bytes, shifted by " + std::to_string(shift));
      Block block = store.send(payload_of(7, bytes, shift));
      block.wait();
      EXPECT_TRUE(block.done());
      EXPECT_EQ(block.bytes(), bytes);
      EXPECT_EQ(payloads_alive(), 0) << "the payload is free once the block has arrived";
      EXPECT_EQ(block.payload(), nullptr);
      for (int again = 0; again < 2; ++again) {
        const Target target(bytes, shift);
        fetch(block, target).wait();
        EXPECT_TRUE(target.holds(7));
      }
    }
  }
  EXPECT_EQ(store.stats().blocks_held, 0);
  EXPECT_EQ(store.stats().bytes_stored, 0) << "places are free again";
}

TEST_P(EveryStore, FetchesBeforeTheBlockHasArrived) {
  const Store store = make();
  std::vector<Block> blocks;
  std::vector<Target> targets;
  std::vector<Fetch> fetches;
  for (int i = 0; i < 40; ++i) {
    const int64_t bytes = 100'000 + i;
    blocks.push_back(store.send(payload_of(i, bytes)));
    targets.emplace_back(bytes);
    fetches.push_back(fetch(blocks.back(), targets.back()));
  }
  for (int i = 0; i < 40; ++i) {
    fetches[i].wait();
    EXPECT_TRUE(fetches[i].done());
    EXPECT_TRUE(targets[i].holds(i)) << i;
  }
}

TEST_P(EveryStore, ThePayloadCanBeTakenBack) {
  const Store store = make();
  for (int i = 0; i < 20; ++i) {
    Payload payload = payload_of(i, 300'000);
    const void* const memory = payload.data.get();
    const Block block = store.send(std::move(payload));
    if (const std::shared_ptr<const void> back = block.payload()) {
      EXPECT_EQ(back.get(), memory);
      Target target(300'000);
      std::memcpy(target.start(), back.get(), 300'000);
      EXPECT_TRUE(target.holds(i));
    } else {
      const Target target(300'000);
      fetch(block, target).wait();
      EXPECT_TRUE(target.holds(i));
    }
  }
}

TEST_P(EveryStore, DroppingABlockFreesItsPlaceAlsoInMidTransfer) {
  const Store store = make();
  for (int i = 0; i < 60; ++i) {
    Block block = store.send(payload_of(i, 2 * kMiB));
    if (i % 3 == 0) block.wait();
    if (i % 2 == 0) {
      const Target target(2 * kMiB);
      const Fetch dropped = fetch(block, target);
    }
  }
  EXPECT_TRUE(soon([&] { return payloads_alive() == 0; }));
  EXPECT_TRUE(soon([&] { return store.stats().blocks_held == 0; }));
  EXPECT_TRUE(soon([&] { return store.stats().bytes_stored == 0; }));
}

TEST_P(EveryStore, BlocksAndFetchesOutliveTheStore) {
  const Target first(kMiB), second(kMiB);
  Block block;
  Fetch fetching;
  {
    const Store store = make();
    block = store.send(payload_of(1, kMiB));
    fetching = fetch(block, first);
  }
  fetch(block, second).wait();
  block = Block();
  fetching.wait();
  EXPECT_TRUE(first.holds(1));
  EXPECT_TRUE(second.holds(1));
}

TEST_P(EveryStore, MayEndOnItsOwnThread) {
  for (uint64_t i = 0; i < 30; ++i) {
    Payload payload = payload_of(i, 100'000);
    {
      const Store store = make();
      const std::shared_ptr<const void> memory = payload.data;
      payload.data = {memory.get(), [memory, store](const void*) {}};  // the last to hold the store
      store.send(std::move(payload));
    }
    EXPECT_TRUE(soon([] { return payloads_alive() == 0; }));
  }
}

TEST_P(EveryStore, ServesManyThreads) {
  const Store store = make();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<std::pair<uint64_t, Block>> held;
      for (int step = 0; step < 60; ++step) {
        const auto bytes = static_cast<int64_t>(random() % 200'000);
        const uint64_t seed = 1000 * t + static_cast<uint64_t>(step);
        held.emplace_back(seed, store.send(payload_of(seed, bytes)));
        const std::size_t pick = random() % held.size();
        const Target target(held[pick].second.bytes());
        fetch(held[pick].second, target).wait();
        if (!target.holds(held[pick].first)) ++wrong;
        if (random() % 2 == 0) held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryStore, CountsWhatItDoes) {
  const Store store = make();
  std::vector<Block> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(store.send(payload_of(i, kMiB)));
  for (Block& block : blocks) block.wait();
  const Target target(kMiB);
  for (int i = 0; i < 3; ++i) fetch(blocks[i], target).wait();
  const StoreStats stats = store.stats();
  EXPECT_EQ(stats.blocks_held, 5);
  EXPECT_EQ(stats.bytes_held, 5 * kMiB);
  EXPECT_EQ(stats.blocks_sent, 5);
  EXPECT_EQ(stats.bytes_sent, 5 * kMiB);
  EXPECT_EQ(stats.blocks_fetched, 3);
  EXPECT_EQ(stats.bytes_fetched, 3 * kMiB);
  EXPECT_EQ(stats.faults, 0);
  EXPECT_GT(stats.bytes_stored, 0);
  EXPECT_GT(stats.send_bandwidth(), 0);
  EXPECT_GT(stats.fetch_bandwidth(), 0);
  EXPECT_GT(stats.send_wait_ms + stats.fetch_wait_ms, 0);
  EXPECT_GT(stats.processor_ms, 0);
  EXPECT_FALSE(stats.path.empty());
  EXPECT_FALSE(store.lossy());
}

TEST_P(EveryStore, IntoNoMemoryIsAUsageError) {
  const Block block = make().send(payload_of(1, 10));
  EXPECT_THROW(block.fetch(nullptr), UsageError);
  const Block none = make().send({nullptr, 0, 1});
  none.fetch(nullptr).wait();
}

TEST_P(EveryStore, MeasuresItsBandwidth) {
  const Bandwidth bandwidth = measure_bandwidth(make(), 16 * kMiB);
  EXPECT_GT(bandwidth.send, 0);
  EXPECT_GT(bandwidth.fetch, 0);
}

TEST_P(EveryStore, LeavesNoFile) {
  const Store store = make();
  Block block = store.send(payload_of(1, kMiB));
  block.wait();
  EXPECT_EQ(folder.entries(), 0U) << "not even while it is in use";
}

TEST_P(EveryStore, RejectsWhatIsNoPayload) {
  const Store store = make();
  EXPECT_THAT(error_of([&] { store.send({nullptr, 1}); }), HasSubstr("without data"));
  EXPECT_THAT(error_of([&] { store.send({payload_of(1, 1).data, -1}); }), HasSubstr("-1 bytes"));
  EXPECT_THAT(error_of([&] { store.send({payload_of(1, 1).data, 1, 17}); }), HasSubstr("17"));
}

// --- limits --------------------------------------------------------------------------------------

TEST(StoreLimits, AFullStoreSaysSoAndTheBlockKeepsItsPayload) {
  const Store store = host_store(kMiB);
  EXPECT_EQ(store.room(), kMiB);
  Block first = store.send(payload_of(1, kMiB / 2));
  first.wait();
  EXPECT_EQ(store.room(), kMiB / 2);
  Block second = store.send(payload_of(2, kMiB));
  EXPECT_THAT(error_of([&] { second.wait(); }),
              AllOf(HasSubstr("room for 1048576 bytes"), HasSubstr("524288 left of 1048576"),
                    HasSubstr("\nhint: ")));
  EXPECT_NE(second.payload(), nullptr);
  const Target target(kMiB);
  fetch(second, target).wait();
  EXPECT_TRUE(target.holds(2)) << "nothing is lost";
  EXPECT_EQ(store.room(), kMiB / 2) << "what failed takes no room";
  EXPECT_EQ(store.stats().faults, 1);

  first = Block();
  second = store.send(payload_of(3, kMiB));
  second.wait();
  fetch(second, target).wait();
  EXPECT_TRUE(target.holds(3));
}

TEST(StoreLimits, BytesInFlightAreBounded) {
  const tests::TempFolder folder;
  DiskOptions options;
  options.bytes_in_flight = 2 * kMiB;
  const DiskStore store(folder.path(""), options);
  std::vector<Block> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(store.send(payload_of(i, kMiB)));
    // This one and those before it that have not arrived, and one that is just being let go of.
    EXPECT_LE(payloads_alive(), 3);
  }
  blocks.push_back(store.send(payload_of(40, 3 * kMiB)));  // larger than the limit: alone
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Target target(blocks[i].bytes());
    fetch(blocks[i], target).wait();
    EXPECT_TRUE(target.holds(i));
  }
}

TEST(StoreHandles, EmptyOnesAreUsageErrors) {
  EXPECT_THROW(Store(nullptr), UsageError);
  EXPECT_THROW(Block().done(), UsageError);
  EXPECT_THROW(Block().wait(), UsageError);
  EXPECT_THROW(Block().payload(), UsageError);
  EXPECT_THROW(Block().fetch(nullptr), UsageError);
  EXPECT_THROW(Fetch().done(), UsageError);
  EXPECT_THROW(Fetch().wait(), UsageError);
}

TEST(StoreLimits, OptionsThatMeanNothingAreRejected) {
  const tests::TempFolder folder;
  const auto disk = [&](const std::function<void(DiskOptions&)>& change) {
    return error_of([&] {
      DiskOptions options;
      change(options);
      DiskStore(folder.path(""), options);
    });
  };
  EXPECT_THAT(disk([](DiskOptions& each) { each.bytes_in_flight = 0; }),
              HasSubstr("bytes_in_flight is 0"));
  EXPECT_THAT(disk([](DiskOptions& each) { each.bytes_held = -5; }), HasSubstr("-5"));
  EXPECT_THAT(disk([](DiskOptions& each) { each.keep_free = -1; }), HasSubstr("keep_free"));
  EXPECT_THAT(error_of([] { HostStore(0); }), HasSubstr("size is 0"));
  HostOptions nothing;
  nothing.allocate = [](int64_t) { return std::shared_ptr<void>(); };
  EXPECT_THAT(error_of([&] { HostStore(1, nothing); }), HasSubstr("gave no memory"));
  const auto compressed = [&](const std::function<void(CompressedOptions&)>& change) {
    return error_of([&] {
      CompressedOptions options;
      change(options);
      CompressedStore(host_store(1), options);
    });
  };
  EXPECT_THAT(compressed([](CompressedOptions& each) { each.min_gain = 1; }),
              HasSubstr("min_gain"));
  EXPECT_THAT(compressed([](CompressedOptions& each) { each.threads = 0; }), HasSubstr("threads"));
}

// --- disks ---------------------------------------------------------------------------------------

TEST(DiskStore, SaysWhichWayItGoes) {
  const tests::TempFolder folder;
  const auto path = [&](bool direct, bool io_uring) {
    return DiskStore(folder.path(""), disk_options(direct, io_uring)).stats().path;
  };
  EXPECT_THAT(path(false, false), AllOf(HasSubstr("threads"), HasSubstr("page cache")));
  EXPECT_THAT(path(true, false), HasSubstr("threads"));
  EXPECT_THAT(path(false, true), HasSubstr("page cache"));
}

TEST(DiskStore, NeedsAFolder) {
  EXPECT_THAT(error_of([] { DiskStore("/no/such/folder"); }),
              AllOf(HasSubstr("'/no/such/folder'"), HasSubstr("No such file or directory"),
                    HasSubstr("\nhint: ")));
}

TEST(DiskStore, ChecksThatThereIsRoom) {
  const tests::TempFolder folder;
  DiskOptions options;
  options.bytes_held = int64_t{1} << 60;
  EXPECT_THAT(error_of([&] { DiskStore(folder.path(""), options); }),
              AllOf(HasSubstr("1152921504606846976 bytes free"), HasSubstr("make room")));
}

TEST(DiskStore, AFullDiskIsAnErrorAndTheBlockKeepsItsPayload) {
  const tests::TempFolder folder;
  DiskOptions options;
  options.keep_free = int64_t{1} << 60;
  const DiskStore store(folder.path(""), options);
  EXPECT_EQ(store.room(), 0);
  Block block = store.send(payload_of(5, kMiB));
  EXPECT_THAT(error_of([&] { block.wait(); }), HasSubstr("make room there"));
  EXPECT_NE(block.payload(), nullptr);
  const Target target(kMiB);
  fetch(block, target).wait();
  EXPECT_TRUE(target.holds(5));
}

TEST(DiskStore, ALimitOnFileSizesIsAnErrorAndNoSignal) {
  const tests::TempFolder folder;
  const DiskStore store(folder.path(""));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 65536;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Block block = store.send(payload_of(5, kMiB));
  const std::string error = error_of([&] { block.wait(); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(error, AllOf(HasSubstr("File too large"), HasSubstr("ulimit -f")));
}

TEST(DiskStore, OutlivesItsFolder) {
  const tests::TempFolder folder;
  const std::string inner = folder.path("inner");
  std::filesystem::create_directory(inner);
  const DiskStore store(inner);
  Block before = store.send(payload_of(1, kMiB));
  before.wait();
  std::filesystem::remove(inner);
  Block after = store.send(payload_of(2, 3 * kMiB));
  after.wait();
  const Target first(kMiB), second(3 * kMiB);
  fetch(before, first).wait();
  fetch(after, second).wait();
  EXPECT_TRUE(first.holds(1));
  EXPECT_TRUE(second.holds(2));
}

TEST(DiskStore, StoresShareAFolder) {
  const tests::TempFolder folder;
  const DiskStore one(folder.path("")), other(folder.path(""));
  Block a = one.send(payload_of(1, 2 * kMiB)), b = other.send(payload_of(2, 2 * kMiB));
  a.wait();
  b.wait();
  const Target first(2 * kMiB), second(2 * kMiB);
  fetch(a, first).wait();
  fetch(b, second).wait();
  EXPECT_TRUE(first.holds(1));
  EXPECT_TRUE(second.holds(2));
}

// --- stores of one's own
// --------------------------------------------------------------------------

TEST(FaultyStore, FailsAtRandomAndLosesNothingThatItSaysItHas) {
  constexpr tests::FaultyStoreRates kRates{.sends = 200, .fetches = 200};
  const Store faulty = tests::faulty_store(host_store(64 * kMiB), 1, kRates);
  int failed_sends = 0, failed_fetches = 0;
  for (const Store& store : {faulty, Store(CompressedStore(faulty))}) {
    for (uint64_t i = 0; i < 200; ++i) {
      Block block = store.send(payload_of(i, 10'000));
      try {
        block.wait();
      } catch (const StoreError&) {
        ++failed_sends;
      }
      const Target target(10'000);
      try {
        fetch(block, target).wait();
        EXPECT_TRUE(target.holds(i));
      } catch (const StoreError& error) {
        ++failed_fetches;
        EXPECT_EQ(error.file(), "a faulty store");
      }
    }
  }
  EXPECT_GT(failed_sends, 40);
  EXPECT_GT(failed_fetches, 40);
  EXPECT_EQ(faulty.stats().faults, failed_sends + failed_fetches);
}

// --- compression ---------------------------------------------------------------------------------

/// Numbers as `make` gives them for each index.
Payload floats(int64_t count, const std::function<float(int64_t)>& make) {
  auto values = std::make_shared<std::vector<float>>();
  for (int64_t i = 0; i < count; ++i) values->push_back(make(i));
  return {{values, values->data()}, count * 4, 4, true};
}

std::vector<float> fetched_floats(const Block& block) {
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(block.bytes() / 4));
  block.fetch({values, values->data()}).wait();
  return *values;
}

TEST(CompressedStore, TakesLessRoomWhereItPays) {
  const CompressedStore store(host_store(64 * kMiB));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  // As after a ReLU: half of them zero.
  const Payload payload = floats(1 << 20, [&](int64_t) { return std::max(0.0F, normal(random)); });
  Block block = store.send(payload);
  block.wait();
  const StoreStats stats = store.stats();
  EXPECT_EQ(stats.blocks_compressed, 1);
  EXPECT_LT(stats.bytes_stored, payload.bytes * 3 / 4);
  const auto* const sent = static_cast<const float*>(payload.data.get());
  const std::vector<float> back = fetched_floats(block);
  EXPECT_EQ(std::memcmp(back.data(), sent, static_cast<std::size_t>(payload.bytes)), 0);
}

TEST(CompressedStore, LeavesNoiseAsItIs) {
  const CompressedStore store(host_store(64 * kMiB));
  auto noise = std::make_shared<std::vector<uint64_t>>(1 << 18);
  std::mt19937_64 random(4);
  for (uint64_t& each : *noise) each = random();
  for (const int64_t bytes : {int64_t{100'000}, int64_t{1} << 21}) {  // sampled or not
    Block block = store.send({{noise, noise->data()}, bytes, 8});
    block.wait();
    EXPECT_EQ(store.stats().blocks_compressed, 0);
    EXPECT_EQ(store.stats().bytes_stored, bytes);
  }
}

TEST(CompressedStore, KeepsEveryElementSize) {
  const CompressedStore store(host_store(64 * kMiB));
  for (int size = 1; size <= 16; ++size) {
    Payload payload = payload_of(size, 1'000'003);
    payload.element_size = size;
    Block block = store.send(std::move(payload));
    const Target target(1'000'003);
    fetch(block, target).wait();
    EXPECT_TRUE(target.holds(size)) << size;
  }
}

TEST(CompressedStore, AFaultBelowIsReportedAndNothingIsLost) {
  const CompressedStore store(host_store(1000));
  Block block = store.send(payload_of(1, 100'000));
  EXPECT_THAT(error_of([&] { block.wait(); }), HasSubstr("a pool of host memory"));
  const Target target(100'000);
  fetch(block, target).wait();
  EXPECT_TRUE(target.holds(1));
}

TEST(CompressedStore, IsLossyOnlyWhenAskedAndOnlyForFloat32) {
  CompressedOptions options;
  options.lossy_bfloat16 = true;
  const CompressedStore store(host_store(64 * kMiB), options);
  EXPECT_TRUE(store.lossy());
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const Payload payload = floats(1 << 18, [&](int64_t i) {
    if (i == 3) return std::nanf("");
    if (i == 4) return -INFINITY;
    if (i == 5) return -0.0F;
    if (i == 6) return 1.00390625F;    // halfway between two: to the even one, 1
    if (i == 7) return 1.01171875F;    // halfway: to the even one, 1.015625
    if (i == 8) return 3.4028235e38F;  // the largest: beyond bfloat16's, so infinity
    return normal(random);
  });
  const auto* const sent = static_cast<const float*>(payload.data.get());
  Block block = store.send(payload);
  EXPECT_EQ(block.payload(), nullptr) << "what comes back must not depend on the moment";
  const std::vector<float> early = fetched_floats(block);
  block.wait();
  const std::vector<float> back = fetched_floats(block);
  EXPECT_EQ(std::memcmp(early.data(), back.data(), back.size() * 4), 0);
  EXPECT_LT(store.stats().bytes_stored, payload.bytes / 2 + 1);
  EXPECT_TRUE(std::isnan(back[3]));
  EXPECT_EQ(back[4], -INFINITY);
  EXPECT_TRUE(back[5] == 0 && std::signbit(back[5]));
  EXPECT_EQ(back[6], 1.0F);
  EXPECT_EQ(back[7], 1.015625F);
  EXPECT_EQ(back[8], INFINITY);
  for (std::size_t i = 9; i < back.size(); ++i) {
    ASSERT_LE(std::abs(back[i] - sent[i]), std::abs(sent[i]) / 256) << i;
  }

  Block integers = store.send(payload_of(6, 100'000));
  const Target target(100'000);
  fetch(integers, target).wait();
  EXPECT_TRUE(target.holds(6));
}

}  // namespace
}  // namespace reprise
