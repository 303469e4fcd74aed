// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <reprise/store.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/child_process.h"
#include "tests/store_support.h"
#include "tests/temp_folder.h"

// What other processes see of a store, and what one leaves that is killed. The other process is
// this program again, which runs send_until_killed() in place of its tests.

namespace reprise {
namespace {

using tests::ChildProcess;
using tests::payload_of;
using tests::say;
using tests::Target;

constexpr const char* kFolder = "REPRISE_STORE_TEST_FOLDER";
constexpr int64_t kBytes = 1'500'000;

/// Sends, fetches and drops without end. Says "under way" once it does, and "wrong" if it ever is.
[[noreturn]] void send_until_killed(const std::string& folder) {
  tests::end_with_the_parent();
  const DiskStore store(folder);
  std::vector<Block> blocks(8);
  for (uint64_t i = 0;; ++i) {
    Block& block = blocks[i % blocks.size()];
    if (block && i % 3 == 0) {
      const Target target(kBytes);
      block.fetch(target.memory()).wait();
      if (!target.holds(i - blocks.size())) say("wrong\n");
    }
    block = store.send(payload_of(i, kBytes));
    if (i == 20) say("under way\n");
  }
}

// Before main(), so that no framework of tests has a say.
[[maybe_unused]] const bool is_parent = [] {
  if (const char* const folder = std::getenv(kFolder)) send_until_killed(folder);
  return true;
}();

TEST(StoreProcess, OneThatIsKilledInMidTransferLeavesNoFile) {
  const tests::TempFolder folder;
  for (int round = 0; round < 3; ++round) {
    ChildProcess child(kFolder, folder.path(""));
    ASSERT_TRUE(child.says("under way"));
    ::usleep(static_cast<useconds_t>(700 * round));
    EXPECT_GT(child.files_open_in(folder.path("")), 0) << "it does work there";
    EXPECT_EQ(folder.entries(), 0U) << "also while it runs";
    const int status = child.kill();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_EQ(folder.entries(), 0U);
  }
}

TEST(StoreProcess, SeveralShareAFolder) {
  const tests::TempFolder folder;
  ChildProcess one(kFolder, folder.path("")), two(kFolder, folder.path(""));
  ASSERT_TRUE(one.says("under way"));
  ASSERT_TRUE(two.says("under way"));
  const DiskStore store(folder.path(""));
  for (uint64_t i = 0; i < 20; ++i) {
    Block block = store.send(payload_of(i, kBytes));
    block.wait();
    const Target target(kBytes);
    block.fetch(target.memory()).wait();
    EXPECT_TRUE(target.holds(i));
  }
  for (ChildProcess* child : {&one, &two}) {
    child->kill();
    EXPECT_FALSE(child->says("wrong"));
  }
}

// A store's threads stay behind: errors, where one would wait for ever.
TEST(StoreProcess, WhatWasMadeBeforeAForkGivesErrors) {
  const tests::TempFolder folder;
  const auto fails = [](const auto& work) {
    try {
      work();
    } catch (const StoreError& error) {
      return std::string(error.what()).find("forked") != std::string::npos;
    }
    return false;
  };
  for (const bool compressed : {false, true}) {
    std::optional<Store> store = DiskStore(folder.path(""));
    if (compressed) store = CompressedStore(*store);
    std::optional<Block> block = store->send(payload_of(7, kBytes));
    block->wait();
    const Target target(kBytes);
    const int status = tests::status_of_fork([&] {
      const bool errors = store->room() == 0 &&
                          fails([&] { store->send(payload_of(8, kBytes)); }) &&
                          fails([&] { block->fetch(target.memory()); });
      block->wait();  // it had arrived
      block.reset();
      store.reset();
      Store own = DiskStore(folder.path(""));
      Block again = own.send(payload_of(9, kBytes));
      again.wait();
      again.fetch(target.memory()).wait();
      return errors && target.holds(9);
    });
    EXPECT_EQ(status, 0) << compressed;
    block->fetch(target.memory()).wait();
    EXPECT_TRUE(target.holds(7)) << "the first process has lost nothing";
  }
}

}  // namespace
}  // namespace reprise
