// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <reprise/store.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/store_support.h"
#include "tests/temp_folder.h"

// What other processes see of a store, and what one leaves that is killed. The other process is
// this program again, which runs send_until_killed() in place of its tests.

namespace reprise {
namespace {

using tests::payload_of;
using tests::Target;

constexpr const char* kFolder = "REPRISE_STORE_TEST_FOLDER";
constexpr int64_t kBytes = 1'500'000;

void say(const std::string& words) {
  if (::write(STDOUT_FILENO, words.data(), words.size()) < 0) ::_exit(1);
}

/// Sends, fetches and drops without end. Says "under way" once it does, and "wrong" if it ever is.
[[noreturn]] void send_until_killed(const std::string& folder) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the test, also when that is cut short
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

class Child {
 public:
  explicit Child(const std::string& folder) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    out_ = ends[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = "/proc/self/exe";
    char* const arguments[] = {program.data(), nullptr};
    ::setenv(kFolder, folder.c_str(), 1);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    ::unsetenv(kFolder);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
  }
  ~Child() {
    kill();
    ::close(out_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Until it says so, or ends.
  bool says(const std::string& words) {
    char some[256];
    while (said_.find(words) == std::string::npos) {
      const ssize_t count = ::read(out_, some, sizeof some);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      said_.append(some, static_cast<std::size_t>(count));
    }
    return true;
  }

  /// Files below `folder` that it has open.
  int files_open_in(const std::string& folder) const {
    int count = 0;
    const std::filesystem::path links = "/proc/" + std::to_string(pid_) + "/fd";
    for (const auto& link : std::filesystem::directory_iterator(links)) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(link, gone).string();
      count += target.find(folder) == 0 ? 1 : 0;
    }
    return count;
  }

  /// How it ended.
  int kill() {
    if (pid_ <= 0) return 0;
    int status = 0;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string said_;
};

TEST(StoreProcess, OneThatIsKilledInMidTransferLeavesNoFile) {
  const tests::TempFolder folder;
  for (int round = 0; round < 3; ++round) {
    Child child(folder.path(""));
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
  Child one(folder.path("")), two(folder.path(""));
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
  for (Child* child : {&one, &two}) {
    child->kill();
    EXPECT_FALSE(child->says("wrong"));
  }
}

}  // namespace
}  // namespace reprise
