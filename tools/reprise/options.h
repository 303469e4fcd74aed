// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "workloads/workload.h"

// Options as they are typed, and their values. CLI11 only collects the texts: they are read here,
// so that each bad one gets the same clear line, which names the option.

namespace reprise::command {

/// The options of one verb. Readers throw UsageError for a value that is not of their kind.
class Options {
 public:
  explicit Options(CLI::App& verb) : verb_(verb) {}
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  /// `name` is "--steps", "--output,-o" of which only the first is asked for below, or "workload"
  /// for a positional; `value` names its value in the help.
  void add(const std::string& name, const std::string& value, const std::string& help);

  /// An option without a value.
  void add_flag(const std::string& name, const std::string& help);
  bool flag(const std::string& name) const;

  /// "compare".
  std::string verb() const { return verb_.get_name(); }

  std::optional<std::string> text(const std::string& name) const;
  std::optional<int64_t> whole(const std::string& name, int64_t least = 1,
                               int64_t most = std::numeric_limits<int32_t>::max()) const;
  std::optional<double> real(const std::string& name) const;
  std::optional<double> positive_real(const std::string& name) const;
  std::optional<std::vector<int64_t>> whole_list(const std::string& name) const;

 private:
  CLI::App& verb_;
  std::map<std::string, std::string> texts_;  // CLI11 writes into these: they must not move
};

void add_json_option(Options& options);

/// The workload and what may be set of it; --threads, --device, --seed; --json.
void add_run_options(Options& options);

/// `--store DIR`, for verbs that may offload.
void add_store_option(Options& options);

/// `--budget`; none if it is not given. Warns where the machine has less.
std::optional<workloads::BudgetSize> budget_size(const Options& options);

/// The same, said as the strategy "budget=...".
std::optional<workloads::Strategy> budget_strategy(const Options& options);

/// What was typed of what workloads take.
workloads::WorkloadOptions workload_options(const Options& options);

/// The workload's name. Throws UsageError where there is none.
std::string workload_name(const Options& options);

/// Checks what can be checked before a long run (LibTorch's version, that --json can be written),
/// sets threads and determinism, and makes the workload.
std::unique_ptr<workloads::Workload> make_workload(const Options& options,
                                                   std::optional<double> learning_rate = {});

/// Writes the JSON if --json asks for it.
void write_json(const Options& options, const std::string& json);

}  // namespace reprise::command
