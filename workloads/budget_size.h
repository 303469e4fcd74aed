// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

// How people type a budget: "512MiB", or "50%" of what a plain step needs above its base.

namespace reprise::workloads {

/// One of them is set.
struct BudgetSize {
  int64_t bytes = 0;       ///< all that is allocated
  double share = 0;        ///< of the plain peak above base
  int64_t above_base = 0;  ///< what a step may take above its base, as plans say it
};

/// A number with a unit: B, KiB, MiB, GiB, TiB, or KB, MB, GB, TB of powers of 1000; or a share
/// above 0 % and at most 100 %. Throws UsageError for anything else; `where` begins its message.
BudgetSize parse_budget_size(const std::string& where, const std::string& text);

/// What a step may take above `base_bytes`, where a plain one takes `plain_peak_bytes`. Throws
/// BudgetInfeasible when the base alone is as much as a size; `where` begins its message.
int64_t bytes_above_base(const std::string& where, const BudgetSize& size, int64_t base_bytes,
                         int64_t plain_peak_bytes);

/// The memory of this machine, where the system tells.
std::optional<int64_t> machine_bytes();

}  // namespace reprise::workloads
