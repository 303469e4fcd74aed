// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/budget_scan.h"

#include <cstdio>

#include <reprise/error.h>

#include "workloads/words.h"

namespace reprise::workloads {
namespace {

constexpr int64_t kMostBudgets = 100;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw UsageError(where + what,
                   "give two shares of the plain peak and a number of budgets: 20%..100%/9");
}

double share_of(const std::string& where, const std::string& text) {
  const BudgetSize size = parse_budget_size(where, text);
  if (size.share == 0) refuse(where, "'" + text + "' is no share of the plain peak");
  return size.share;
}

// Four digits behind the point are more than budgets can tell apart.
std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g%%", share * 100);
  return text;
}

}  // namespace

std::vector<Strategy> budget_scan(const std::string& where, const std::string& text) {
  const std::size_t dots = text.find(".."), slash = text.rfind('/');
  if (dots == std::string::npos || slash == std::string::npos || slash < dots) {
    refuse(where, "expected a range of budgets, got '" + text + "'");
  }
  const double from = share_of(where, text.substr(0, dots));
  const double to = share_of(where, text.substr(dots + 2, slash - dots - 2));
  const auto count = parse_whole(text.substr(slash + 1), 1, kMostBudgets);
  if (!count) {
    refuse(where, "'" + text.substr(slash + 1) + "' is no number of budgets from 1 to " +
                      std::to_string(kMostBudgets));
  }
  if ((*count == 1) != (from == to)) {
    refuse(where, "the range of '" + text + "' has " +
                      (from == to ? "one budget only" : "two ends, so two budgets or more"));
  }
  std::vector<Strategy> strategies;
  for (int64_t i = 0; i < *count; ++i) {
    const double way = *count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(*count - 1);
    strategies.push_back(parse_strategy("budget=" + percent(from + (to - from) * way)));
  }
  return strategies;
}

}  // namespace reprise::workloads
