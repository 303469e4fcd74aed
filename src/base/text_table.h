// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reprise/text_style.h>

// The layout of every table in text. Columns and rows of cells come in; aligned lines go out, which
// fit the width they are given: the least important columns are left out first, and named in a
// line below; when too few would be left, each row becomes a few lines of its own.

namespace reprise::detail {

enum class Align { left, right };
enum class Tone { normal, good, bad };

struct Column {
  std::string title;
  Align align = Align::right;
  int rank = 0;  ///< 0: always shown; of the others the highest are left out first
};

struct Cell {
  Cell(std::string text, Tone tone = Tone::normal)  // NOLINT: texts are cells
      : text(std::move(text)), tone(tone) {}
  Cell(const char* text) : text(text) {}  // NOLINT: as above
  std::string text;
  Tone tone = Tone::normal;
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns);

  /// As many cells as there are columns. The first names the row.
  void add_row(std::vector<Cell> cells);

  /// Lines without spaces at their end. Control characters in cells are replaced.
  std::string str(const TextStyle& style = {}) const;

  /// As GitHub's Markdown, with all columns.
  std::string markdown() const;

 private:
  std::vector<std::size_t> shown_columns(int64_t width) const;
  std::string line_of(const std::vector<Cell>& cells, const std::vector<std::size_t>& shown,
                      const TextStyle& style, bool heading) const;
  std::string stacked(const TextStyle& style) const;

  std::vector<Column> columns_;
  std::vector<int64_t> widths_;  // of the widest cell of each column, its title included
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace reprise::detail
