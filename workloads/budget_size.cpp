// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/budget_size.h"

#include <algorithm>
#include <cctype>
#include <unistd.h>
#include <utility>
#include <vector>

#include <reprise/budget_infeasible.h>
#include <reprise/error.h>
#include <reprise/report.h>

#include "workloads/words.h"

namespace reprise::workloads {
namespace {

constexpr const char* kHint =
    "give a size such as 512MiB or 1.5GiB, or a part of plain such as 50%";

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw UsageError(where + what, kHint);
}

std::optional<double> factor_of(std::string unit) {
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  static const std::vector<std::pair<std::string, double>> kUnits = {
      {"b", 1},    {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40},
      {"kb", 1e3}, {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12},
  };
  for (const auto& [name, factor] : kUnits) {
    if (name == unit) return factor;
  }
  return std::nullopt;
}

}  // namespace

BudgetSize parse_budget_size(const std::string& where, const std::string& text) {
  const std::size_t end = text.find_first_not_of("+-.0123456789");
  const auto number = parse_real(text.substr(0, end));
  const std::string unit = end == std::string::npos ? "" : text.substr(end);
  if (!number) refuse(where, "expected a budget, got '" + text + "'");
  if (*number <= 0) refuse(where, "a budget must be more than nothing, got '" + text + "'");
  BudgetSize size;
  if (unit == "%") {
    if (*number > 100) refuse(where, "a plain step needs no more than 100%, got '" + text + "'");
    size.share = *number / 100;
    return size;
  }
  const auto factor = factor_of(unit);
  if (!factor) {
    refuse(where, unit.empty() ? "a budget needs a unit, got '" + text + "'"
                               : "unknown unit '" + unit + "' in '" + text + "'");
  }
  const double bytes = *number * *factor;
  if (bytes < 1 || bytes >= 0x1p62) refuse(where, "no memory is of this size: '" + text + "'");
  size.bytes = static_cast<int64_t>(bytes);
  return size;
}

int64_t bytes_above_base(const std::string& where, const BudgetSize& size, int64_t base_bytes,
                         int64_t plain_peak_bytes) {
  if (size.above_base > 0) return size.above_base;
  if (size.bytes == 0) {
    return std::max<int64_t>(
        1, static_cast<int64_t>(size.share * static_cast<double>(plain_peak_bytes)));
  }
  if (size.bytes > base_bytes) return size.bytes - base_bytes;
  throw BudgetInfeasible(where + format_bytes(base_bytes) + " are live before a step",
                         "a size counts parameters and data too: give it more, or say what a step "
                         "may take above them, as P%",
                         size.bytes, base_bytes, "");
}

std::optional<int64_t> machine_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::nullopt;
  return pages * page;
}

}  // namespace reprise::workloads
