// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include <ATen/Parallel.h>

#include <sys/wait.h>

#include "tests/child_process.h"
#include "tests/support.h"
#include "tests/temp_folder.h"

// A process that trains with a store on disk, and is killed in mid-step. It is this program again,
// which runs train_until_killed() in place of its tests.

namespace reprise::testing {
namespace {

using tests::ChildProcess;
using tests::say;

constexpr const char* kFolder = "REPRISE_OFFLOAD_TEST_FOLDER";

/// Says "under way" when it has made some steps and something has gone to the folder, and "wrong"
/// if a gradient ever is.
[[noreturn]] void train_until_killed(const std::string& folder) {
  tests::end_with_the_parent();
  at::set_num_threads(1);
  const DiskStore store(folder);
  const Policy policy = Policy::offload(store, OffloadOptions().keep_last(0)).audit(false);
  const Tensor x = leaf({256, 128}, 1), w = leaf({128, 128}, 2);
  const auto forward = [&] {
    Tensor y = x;
    for (int i = 0; i < 4; ++i) y = at::layer_norm(at::gelu(y.matmul(w)) + y, {128});
    return y.sin().mean();
  };
  const auto plain = loss_and_gradients({x, w}, forward);
  bool said = false;
  for (int step = 0;; ++step) {
    const auto ours = loss_and_gradients({x, w}, [&] {
      const Scope scope(policy);
      return forward();
    });
    if (!same_bits(ours, plain)) say("wrong\n");
    // In so short a step all may come back before it has left.
    if (said || step < 3 || store.stats().blocks_sent == 0) continue;
    say("under way\n");
    said = true;
  }
}

// Before main(), so that no framework of tests has a say.
[[maybe_unused]] const bool is_parent = [] {
  if (const char* const folder = std::getenv(kFolder)) train_until_killed(folder);
  return true;
}();

TEST(OffloadProcess, OneThatIsKilledInMidStepLeavesNoFile) {
  const tests::TempFolder folder;
  std::mt19937 random(1);
  for (int round = 0; round < 5; ++round) {
    ChildProcess child(kFolder, folder.path(""));
    ASSERT_TRUE(child.says("under way"));
    ::usleep(static_cast<useconds_t>(random() % 20'000));  // a step takes some of it
    EXPECT_GT(child.files_open_in(folder.path("")), 0) << "it does work there";
    EXPECT_EQ(folder.entries(), 0U) << "also while it runs";
    const int status = child.kill();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_FALSE(child.says("wrong"));
    EXPECT_EQ(folder.entries(), 0U);
  }
}

// The other process keeps what it would send, and what has been sent before is an error there.
TEST(OffloadProcess, AForkedOneIsNeverWrongAndDoesNotHang) {
  const tests::TempFolder folder;
  at::set_num_threads(1);  // of other threads OpenMP would not know either
  const DiskStore store(folder.path(""));
  const Policy policy =
      Policy::offload(store, OffloadOptions().min_bytes(0).keep_last(0)).audit(false);
  const Tensor x = leaf({32, 16}, 1), w = leaf({16, 16}, 2);
  const auto forward = [&] {
    Tensor y = x;
    for (int i = 0; i < 4; ++i) y = at::gelu(y.matmul(w)).sin();
    return y.mean();
  };
  const auto offloaded = [&] {
    const Scope scope(policy);
    return forward();
  };
  const auto plain = loss_and_gradients({x, w}, forward);
  const Tensor loss = offloaded();
  while (store.stats().bytes_sent < store.stats().bytes_held) ::usleep(1000);
  EXPECT_GT(store.stats().blocks_sent, 0);
  const int status = tests::status_of_fork([&] {
    bool failed = false;
    try {
      loss.backward();
    } catch (const StoreError&) {
      failed = true;
    }
    return failed && bool(same_bits(loss_and_gradients({x, w}, offloaded), plain));
  });
  EXPECT_EQ(status, 0);
  for (const Tensor& leaf : {x, w}) leaf.mutable_grad() = Tensor();
  loss.backward();
  EXPECT_TRUE(same_bits({loss.detach(), x.grad(), w.grad()}, plain));
}

TEST(OffloadProcess, TwoThatTrainInOneFolderDoNotSeeEachOther) {
  const tests::TempFolder folder;
  ChildProcess one(kFolder, folder.path("")), two(kFolder, folder.path(""));
  ASSERT_TRUE(one.says("under way"));
  ASSERT_TRUE(two.says("under way"));
  one.kill();
  ::usleep(100'000);
  two.kill();
  EXPECT_FALSE(one.says("wrong"));
  EXPECT_FALSE(two.says("wrong"));
  EXPECT_EQ(folder.entries(), 0U);
}

}  // namespace
}  // namespace reprise::testing
