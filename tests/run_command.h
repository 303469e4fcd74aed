// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/temp_folder.h"

// The built command, run as a process.

namespace reprise::tests {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// `program` is REPRISE_COMMAND; `arguments` are words for the shell; `environment` is such as
/// "NAME=value".
inline Outcome run_command(const std::string& program, const std::string& arguments,
                           const std::string& environment = "") {
  const TempFolder folder;
  const std::string line = environment + " '" + program + "' " + arguments + " >'" +
                           folder.path("out") + "' 2>'" + folder.path("err") + "' </dev/null";
  const int status = std::system(line.c_str());
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = read_file(folder.path("out"));
  outcome.err = read_file(folder.path("err"));
  return outcome;
}

struct Mistake {
  std::string arguments;
  int code;
  std::string complaint;
};

/// Two lines, "error: ..." and "hint: ...", and nothing on stdout.
inline void expect_rejected(const std::string& program, const Mistake& mistake,
                            const std::string& environment = "") {
  SCOPED_TRACE("reprise " + mistake.arguments);
  const Outcome outcome = run_command(program, mistake.arguments, environment);
  EXPECT_EQ(outcome.code, mistake.code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::StartsWith("error: "));
  EXPECT_THAT(outcome.err, ::testing::HasSubstr(mistake.complaint));
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("\nhint: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
}

}  // namespace reprise::tests
