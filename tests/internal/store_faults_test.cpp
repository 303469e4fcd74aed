// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <reprise/store.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offload/disk_channel.h"
#include "offload/engine.h"
#include "offload/extents.h"
#include "offload/layout.h"
#include "offload/memory_channel.h"
#include "tests/internal/faulty_channel.h"
#include "tests/store_support.h"
#include "tests/temp_folder.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::FaultRates;
using tests::FaultyChannel;
using tests::payload_of;
using tests::payloads_alive;
using tests::soon;
using tests::Target;

// --- channels ------------------------------------------------------------------------------------

using MakeChannel = std::function<std::unique_ptr<detail::Channel>(const std::string& folder)>;

MakeChannel disk(bool direct, bool io_uring) {
  return [=](const std::string& folder) {
    DiskOptions options;
    options.direct = direct;
    options.io_uring = io_uring;
    return detail::disk_channel(folder, options);
  };
}

std::unique_ptr<detail::Channel> memory(const std::string&) {
  constexpr std::size_t kBytes = 64 << 20;
  std::shared_ptr<void> pool(std::malloc(kBytes), std::free);
  return detail::memory_channel(std::move(pool), kBytes, "memory", "");
}

Store faulty_store(std::unique_ptr<detail::Channel> channel, unsigned seed, FaultRates rates,
                   std::atomic<int64_t>& injected) {
  return Store(std::make_shared<detail::BlockEngine>(
      std::make_unique<FaultyChannel>(std::move(channel), seed, rates, injected), int64_t{4} << 20,
      kNoLimit));
}

std::size_t open_files() {
  const std::filesystem::directory_iterator begin("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

// --- random programs against a faulty store ------------------------------------------------------

struct Tally {
  int64_t right = 0, wrong = 0, errors = 0;
};

/// Sends, fetches, waits and drops at random. Whatever comes back is right, or an error.
class Program {
 public:
  Program(const Store& store, unsigned seed, Tally& tally)
      : store_(store), random_(seed), tally_(tally) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      switch (random_() % 6) {
        case 0:
        case 1:
          send();
          break;
        case 2:
        case 3:
          fetch();
          break;
        case 4:
          drop();
          break;
        default:
          settle();
      }
    }
    while (!fetches_.empty()) settle();
  }

 private:
  struct Sent {
    uint64_t seed = 0;
    Block block;
  };
  struct Fetching {
    uint64_t seed = 0;
    Target target;
    Fetch fetch;
  };

  template <class Entries>
  std::size_t any(const Entries& entries) {
    return random_() % entries.size();
  }

  template <class Entries>
  static void erase(Entries& entries, std::size_t at) {
    std::swap(entries[at], entries.back());
    entries.pop_back();
  }

  void send() {
    // Mostly small, so that there are many; some of several pieces.
    const uint64_t largest = random_() % 40 == 0 ? 3'000'000 : 30'000;
    const auto bytes = static_cast<int64_t>(random_() % largest);
    const uint64_t seed = random_();
    blocks_.push_back({seed, store_.send(payload_of(seed, bytes, random_() % 2 == 0 ? 0 : 24))});
  }

  void fetch() {
    if (blocks_.empty()) return;
    const Sent& sent = blocks_[any(blocks_)];
    Target target(sent.block.bytes(), random_() % 2 == 0 ? 0 : 8);
    Fetch fetch = sent.block.fetch(target.memory());
    fetches_.push_back({sent.seed, std::move(target), std::move(fetch)});
  }

  void drop() {
    if (!blocks_.empty() && random_() % 2 == 0) erase(blocks_, any(blocks_));
    if (!fetches_.empty() && random_() % 8 == 0) erase(fetches_, any(fetches_));
  }

  /// Waits for a fetch, or for a block.
  void settle() {
    if (!blocks_.empty() && random_() % 4 == 0) {
      Sent& sent = blocks_[any(blocks_)];
      try {
        sent.block.wait();
      } catch (const StoreError& error) {
        ++tally_.errors;
        EXPECT_FALSE(error.file().empty() || error.expected().empty() || error.found().empty());
        // Nothing is lost: the payload is there, and what is fetched comes from it.
        EXPECT_NE(sent.block.payload(), nullptr);
        const Target target(sent.block.bytes());
        sent.block.fetch(target.memory()).wait();
        EXPECT_TRUE(target.holds(sent.seed));
      }
    }
    if (fetches_.empty()) return;
    const std::size_t at = any(fetches_);
    try {
      fetches_[at].fetch.wait();
      ++(fetches_[at].target.holds(fetches_[at].seed) ? tally_.right : tally_.wrong);
    } catch (const StoreError&) {
      ++tally_.errors;
    }
    erase(fetches_, at);
  }

  const Store store_;
  std::mt19937_64 random_;
  Tally& tally_;
  std::vector<Sent> blocks_;
  std::vector<Fetching> fetches_;
};

TEST(StoreFaults, TenThousandOfThemGiveNoWrongByteNoLeakAndNoFile) {
  constexpr FaultRates kRates{.fails = 20,
                              .full = 20,
                              .interrupted = 40,
                              .shorter = 60,
                              .nothing = 10,
                              .flipped = 40,
                              .lost = 20,
                              .elsewhere = 20,
                              .late = 60,
                              .no_growth = 100};
  const tests::TempFolder folder;
  // Disks take longer than memory, where the engine does the same.
  const std::vector<MakeChannel> channels{memory, disk(true, true),  memory, disk(true, false),
                                          memory, disk(false, true), memory, disk(false, false)};
  const std::size_t files = open_files();
  std::atomic<int64_t> injected = 0;
  Tally tally;
  for (unsigned seed = 1; injected < 10'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Store store =
        faulty_store(channels[seed % channels.size()](folder.path("")), seed, kRates, injected);
    Program(store, seed, tally).run(400);
    // What was dropped in mid-transfer may still be on its way.
    ASSERT_TRUE(soon([&] { return store.stats().blocks_held == 0; }));
    ASSERT_EQ(store.stats().bytes_held, 0);
    ASSERT_EQ(store.stats().bytes_stored, 0);
    ASSERT_TRUE(soon([] { return payloads_alive() == 0; }));
    ASSERT_EQ(folder.entries(), 0U);
    ASSERT_EQ(tally.wrong, 0);
  }
  EXPECT_TRUE(soon([&] { return open_files() == files; }));
  EXPECT_GT(tally.right, 5'000);
  EXPECT_GT(tally.errors, 500);
  RecordProperty("right", static_cast<int>(tally.right));
  RecordProperty("errors", static_cast<int>(tally.errors));
}

TEST(StoreFaults, ACompressedStoreOverAFaultyOneGivesNoWrongByteEither) {
  constexpr FaultRates kRates{.fails = 30, .shorter = 30, .flipped = 60, .lost = 30, .late = 60};
  std::atomic<int64_t> injected = 0;
  Tally tally;
  for (unsigned seed = 1; injected < 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CompressedOptions options;
    options.threads = 1 + static_cast<int>(seed % 2);
    const CompressedStore store(faulty_store(memory(""), seed, kRates, injected), options);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 100; ++i) {
      // A few values in a row, so that it shrinks.
      const auto bytes = static_cast<int64_t>(random() % 60'000);
      auto values = std::make_shared<std::vector<uint32_t>>(15'000);
      for (std::size_t at = 0; at < values->size(); ++at) {
        (*values)[at] = static_cast<uint32_t>(at / 100 * seed);
      }
      Block block = store.send({{values, values->data()}, bytes, 4});
      std::vector<std::byte> target(static_cast<std::size_t>(bytes));
      try {
        if (random() % 2 == 0) block.wait();
        block.fetch({std::shared_ptr<void>(), target.data()}).wait();
        ++(std::memcmp(target.data(), values->data(), target.size()) == 0 ? tally.right
                                                                          : tally.wrong);
      } catch (const StoreError&) {
        ++tally.errors;
      }
    }
    EXPECT_GT(store.stats().blocks_compressed, 0);
  }
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.right, 500);
  EXPECT_GT(tally.errors, 100);
}

// --- each fault by itself ------------------------------------------------------------------------

struct OneFault {
  const char* name;
  FaultRates rates;
  bool send_fails, fetch_fails;
  std::string says;
};

void PrintTo(const OneFault& fault, std::ostream* out) { *out << fault.name; }

class EachFault : public ::testing::TestWithParam<OneFault> {};

INSTANTIATE_TEST_SUITE_P(
    StoreFaults, EachFault,
    ::testing::Values(
        OneFault{"Error", {.fails = 1000}, true, false, "Input/output error"},
        OneFault{"Full", {.full = 1000}, true, false, "No space left on device"},
        OneFault{"Nothing", {.nothing = 1000}, true, false, "found 0 bytes"},
        OneFault{"Interrupted", {.interrupted = 1000}, true, false, "Interrupted system call"},
        OneFault{"OftenInterrupted", {.interrupted = 500}, false, false, ""},
        OneFault{"Shorter", {.shorter = 1000}, false, false, ""},
        OneFault{"Late", {.late = 1000}, false, false, ""},
        OneFault{"Flipped", {.flipped = 1000}, false, true, "expected checksum"},
        OneFault{"Lost", {.lost = 1000}, false, true, "bytes came back changed"},
        OneFault{"NoGrowth", {.no_growth = 1000}, true, false, "cannot grow"}),
    [](const auto& info) { return info.param.name; });

TEST_P(EachFault, IsAnErrorThatNamesItOrIsOvercome) {
  const OneFault& fault = GetParam();
  const tests::TempFolder folder;
  std::atomic<int64_t> injected = 0;
  const Store store = faulty_store(disk(true, true)(folder.path("")), 1, fault.rates, injected);
  constexpr int64_t kBytes = 3'000'001;
  Block block = store.send(payload_of(4, kBytes));
  std::string error;
  try {
    block.wait();
    EXPECT_FALSE(fault.send_fails);
  } catch (const StoreError& failed) {
    EXPECT_TRUE(fault.send_fails);
    error = failed.what();
  }
  const Target target(kBytes);
  try {
    block.fetch(target.memory()).wait();
    EXPECT_FALSE(fault.fetch_fails);
    EXPECT_TRUE(target.holds(4));
  } catch (const StoreError& failed) {
    EXPECT_TRUE(fault.fetch_fails);
    error = failed.what();
    EXPECT_THAT(failed.file(), HasSubstr(folder.path("")));
  }
  EXPECT_GT(injected, 0);
  EXPECT_THAT(error, HasSubstr(fault.says));
  EXPECT_EQ(error.empty(), !fault.send_fails && !fault.fetch_fails);
  EXPECT_THAT(error, ::testing::AnyOf("", AllOf(HasSubstr("expected "), HasSubstr("\nhint: "))));
}

// --- parts ---------------------------------------------------------------------------------------

TEST(DiskFile, IsUnlinkedAlsoWithoutHelpOfTheFileSystem) {
  const tests::TempFolder folder;
  auto file = std::make_shared<detail::DiskFile>(folder.path(""), 0, /*born_nameless=*/false);
  EXPECT_EQ(folder.entries(), 0U);
  file->try_direct();
  const Store store(std::make_shared<detail::BlockEngine>(detail::thread_channel(file),
                                                          int64_t{1} << 20, kNoLimit));
  Block block = store.send(payload_of(8, 1'234'567));
  block.wait();
  const Target target(1'234'567);
  block.fetch(target.memory()).wait();
  EXPECT_TRUE(target.holds(8));
}

TEST(Layout, PiecesCoverABlockOnceAndTheMiddleNeedsNoCopy) {
  for (const int64_t unit : {1, 4096}) {
    for (const int64_t memory_unit : {int64_t{1}, std::min<int64_t>(unit, 512), unit}) {
      for (const int64_t bytes : {1, 100, 4096, 262'143, 262'144, 262'145, 1 << 20, 5'000'000}) {
        for (const uint64_t address : {0, 64, 448, 512, 4032}) {
          const detail::Layout layout(bytes, address, unit, memory_unit);
          int64_t next = 0, end = 0, copied = 0;
          for (int64_t i = 0; i < layout.pieces(); ++i) {
            const detail::Layout::Piece piece = layout.piece(i);
            ASSERT_EQ(piece.at, next);
            ASSERT_GT(piece.bytes, 0);
            ASSERT_LE(piece.bytes, detail::Layout::kPiece);
            ASSERT_EQ(piece.offset % unit, 0);
            ASSERT_GE(piece.offset, end);
            next += piece.bytes;
            end = piece.offset + piece.bytes;
            const bool straight =
                piece.bytes % unit == 0 &&
                (address + static_cast<uint64_t>(piece.at)) % static_cast<uint64_t>(memory_unit) ==
                    0;
            copied += straight ? 0 : piece.bytes;
          }
          ASSERT_EQ(next, bytes);
          ASSERT_LE(end, layout.room());
          ASSERT_LE(layout.room(), bytes + 2 * unit);
          ASSERT_EQ(layout.room() % unit, 0);
          ASSERT_LT(copied, bytes < 262'144 ? bytes + 1 : 2 * unit);
        }
      }
    }
  }
}

TEST(Extents, FreePartsJoinAndTheBestFits) {
  detail::Extents extents;
  EXPECT_EQ(extents.take(1), -1);
  extents.free(0, 100);
  EXPECT_EQ(extents.free_at_end(100), 100);
  EXPECT_EQ(extents.take(40), 0);
  EXPECT_EQ(extents.take(10), 40);
  EXPECT_EQ(extents.take(20), 50);
  extents.free(0, 40);
  extents.free(50, 20);  // joins with what is free behind it
  EXPECT_EQ(extents.free_at_end(100), 50);
  EXPECT_EQ(extents.take(45), 50) << "the smaller part that has room";
  extents.free(50, 45);
  extents.free(40, 10);
  EXPECT_EQ(extents.free_bytes(), 100);
  EXPECT_EQ(extents.take(100), 0) << "all in one part again";
}

TEST(Extents, PartsNeverOverlap) {
  detail::Extents extents;
  std::mt19937 random(1);
  std::map<int64_t, int64_t> taken;
  int64_t end = 0, held = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (taken.empty() || random() % 2 == 0) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % 64);
      int64_t at = extents.take(bytes);
      if (at < 0) {
        const int64_t missing = bytes - extents.free_at_end(end);
        extents.free(end, missing);
        end += missing;
        at = extents.take(bytes);
      }
      ASSERT_GE(at, 0);
      const auto after = taken.lower_bound(at);
      ASSERT_TRUE(after == taken.end() || at + bytes <= after->first);
      ASSERT_TRUE(after == taken.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= at);
      taken[at] = bytes;
      held += bytes;
    } else {
      const auto any = std::next(taken.begin(), static_cast<int>(random() % taken.size()));
      extents.free(any->first, any->second);
      held -= any->second;
      taken.erase(any);
    }
    ASSERT_EQ(extents.free_bytes(), end - held);
  }
}

}  // namespace
}  // namespace reprise
