// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "workloads/strategy.h"

namespace reprise::workloads {

/// "20%..100%/9": that many budgets from one share of the plain peak to the other, both included,
/// with equal distances; the first is the one that is named first. One of them where N is 1 and
/// both ends are the same. Throws UsageError for anything else; `where` begins its message.
std::vector<Strategy> budget_scan(const std::string& where, const std::string& text);

}  // namespace reprise::workloads
