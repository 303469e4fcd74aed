// SPDX-License-Identifier: BSD-3-Clause
#include "report/columns.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace reprise::detail {

std::string columns(const std::vector<Row>& rows, const std::string& align) {
  std::vector<std::size_t> widths(align.size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      if (i > 0) line += "  ";
      line += align[i] == 'l' ? row[i] + space : space + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> text;  // the largest double has 309 digits before the point
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > sign + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string scaled(int64_t value) {
  if (value == 0) return "-";
  constexpr std::array<const char*, 7> kUnits = {"", " k", " M", " G", " T", " P", " E"};
  double size = static_cast<double>(value);
  std::size_t unit = 0;
  while (size >= 999.5 && unit + 1 < kUnits.size()) {
    size /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fixed(size, decimals) + kUnits[unit];
}

std::string percent(double share) { return fixed(share * 100, 1) + " %"; }

}  // namespace reprise::detail
