// SPDX-License-Identifier: BSD-3-Clause
#include "report/columns.h"

#include <array>

#include "base/text_table.h"
#include "report/markup.h"

namespace reprise::detail {

std::string columns(const std::vector<Row>& rows, const std::string& align,
                    const std::string& ranks, const TextStyle& style) {
  std::vector<Column> titles;
  for (std::size_t i = 0; i < align.size(); ++i) {
    titles.push_back({rows[0][i], align[i] == 'l' ? Align::left : Align::right, ranks[i] - '0'});
  }
  TextTable table(titles);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    table.add_row(std::vector<Cell>(rows[i].begin(), rows[i].end()));
  }
  return table.str(style);
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
  return fixed_number(size, decimals) + kUnits[unit];
}

std::string percent(double share) { return fixed_number(share * 100, 1) + " %"; }

}  // namespace reprise::detail
