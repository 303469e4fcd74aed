// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <string>

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

}  // namespace reprise::tests
