// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

// How people type a budget: "512MiB", or "50%" of what a plain step needs above its base.

namespace reprise::workloads {

struct BudgetSize {
  int64_t bytes = 0;  ///< all that is allocated; 0 for a share
  double share = 0;   ///< of the plain peak above base; 0 for bytes
};

/// A number with a unit: B, KiB, MiB, GiB, TiB, or KB, MB, GB, TB of powers of 1000; or a share
/// above 0 % and at most 100 %. Throws UsageError for anything else; `where` begins its message.
BudgetSize parse_budget_size(const std::string& where, const std::string& text);

/// The memory of this machine, where the system tells.
std::optional<int64_t> machine_bytes();

}  // namespace reprise::workloads
