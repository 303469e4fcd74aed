// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

// Another process, to be killed: this program again, which sees by a variable of its environment
// that it is to do something else than run its tests. See store_process_test.cpp.

namespace reprise::tests {

/// For the child: it ends with the test, also when that is cut short.
inline void end_with_the_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

/// For the child: what ChildProcess::says() waits for.
inline void say(const std::string& words) {
  if (::write(STDOUT_FILENO, words.data(), words.size()) < 0) ::_exit(1);
}

/// What a copy of this process says that is forked off: true by ending with 0. Ends by a signal if
/// it takes longer than 20 s.
template <class Work>
int status_of_fork(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    end_with_the_parent();
    ::alarm(20);
    ::_exit(work() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

class ChildProcess {
 public:
  ChildProcess(const char* variable, const std::string& value) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    out_ = ends[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = "/proc/self/exe";
    char* const arguments[] = {program.data(), nullptr};
    ::setenv(variable, value.c_str(), 1);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    ::unsetenv(variable);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
  }
  ~ChildProcess() {
    kill();
    ::close(out_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

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

}  // namespace reprise::tests
