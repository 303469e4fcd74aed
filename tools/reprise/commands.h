// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

// The verbs. Each adds its options to a subcommand, and returns what to run once the command line
// is parsed; that returns the exit code. Errors are thrown.

namespace reprise::command {

enum ExitCode { kOk = 0, kFailure = 1, kUsage = 2, kInfeasible = 3, kGradientsDiffer = 4 };

using Run = std::function<int()>;

Run add_train(CLI::App& verb);
Run add_compare(CLI::App& verb);
Run add_profile(CLI::App& verb);
Run add_plan(CLI::App& verb);
Run add_doctor(CLI::App& verb);

}  // namespace reprise::command
