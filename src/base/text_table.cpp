// SPDX-License-Identifier: BSD-3-Clause
#include "base/text_table.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text_width.h"

namespace reprise::detail {
namespace {

constexpr int64_t kGap = 2;

std::string spaces(int64_t count) {
  return std::string(static_cast<std::size_t>(std::max<int64_t>(count, 0)), ' ');
}

std::string painted(const std::string& text, Tone tone, bool heading, const TextStyle& style) {
  if (!style.colour || text.empty()) return text;
  if (heading) return "\033[1m" + text + "\033[0m";
  if (tone == Tone::normal) return text;
  return (tone == Tone::good ? "\033[32m" : "\033[1;31m") + text + "\033[0m";
}

// A bar would end its cell; nothing else that names and numbers hold is markup by itself.
std::string markdown_cell(const std::string& text, int64_t width, Align align) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  const std::string rest = spaces(width - display_width(escaped));
  return align == Align::left ? escaped + rest : rest + escaped;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_) widths_.push_back(display_width(column.title));
}

void TextTable::add_row(std::vector<Cell> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a row of another number of cells");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i].text = printable(cells[i].text);
    widths_[i] = std::max(widths_[i], display_width(cells[i].text));
  }
  rows_.push_back(std::move(cells));
}

// Empty when not even the columns that are always shown fit.
std::vector<std::size_t> TextTable::shown_columns(int64_t width) const {
  std::vector<std::size_t> shown;
  int64_t total = -kGap;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    shown.push_back(i);
    total += kGap + widths_[i];
  }
  while (width > 0 && total > width && !shown.empty()) {
    const auto least = std::max_element(shown.begin(), shown.end(), [&](auto a, auto b) {
      return columns_[a].rank < columns_[b].rank;
    });
    if (columns_[*least].rank == 0) return {};
    total -= kGap + widths_[*least];
    shown.erase(least);
  }
  return shown;
}

std::string TextTable::line_of(const std::vector<Cell>& cells,
                               const std::vector<std::size_t>& shown, const TextStyle& style,
                               bool heading) const {
  std::string line;
  int64_t owed = 0;  // spaces that are written only if something follows
  for (const std::size_t i : shown) {
    const int64_t rest = widths_[i] - display_width(cells[i].text);
    const bool left = columns_[i].align == Align::left;
    if (!cells[i].text.empty()) {
      line += spaces(owed + (left ? 0 : rest));
      line += painted(cells[i].text, cells[i].tone, heading, style);
      owed = (left ? rest : 0) + kGap;
    } else {
      owed += widths_[i] + kGap;
    }
  }
  return line + "\n";
}

// The first cell names the row; the others follow below it, each with its column's title.
std::string TextTable::stacked(const TextStyle& style) const {
  int64_t titles = 0;
  for (const Column& column : columns_) titles = std::max(titles, display_width(column.title));
  std::string text;
  for (const auto& row : rows_) {
    text += painted(row[0].text, Tone::normal, /*heading=*/true, style) + "\n";
    for (std::size_t i = 1; i < columns_.size(); ++i) {
      const std::string& title = columns_[i].title;
      if (row[i].text.empty()) continue;
      text += "  " + title + spaces(titles - display_width(title) + kGap) +
              painted(row[i].text, row[i].tone, /*heading=*/false, style) + "\n";
    }
  }
  return text;
}

std::string TextTable::str(const TextStyle& style) const {
  const std::vector<std::size_t> shown = shown_columns(style.width);
  if (shown.empty()) return stacked(style);
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title);
  std::string text = line_of(titles, shown, style, /*heading=*/true);
  for (const auto& row : rows_) text += line_of(row, shown, style, /*heading=*/false);
  std::string left_out;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (std::find(shown.begin(), shown.end(), i) != shown.end()) continue;
    left_out += (left_out.empty() ? "" : ", ") + columns_[i].title;
  }
  if (!left_out.empty()) text += "left out, as the terminal is narrow: " + left_out + "\n";
  return text;
}

std::string TextTable::markdown() const {
  std::string titles = "|", rule = "|", lines;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string dashes(static_cast<std::size_t>(widths_[i]) - 1, '-');
    titles += " " + markdown_cell(columns_[i].title, widths_[i], columns_[i].align) + " |";
    rule += " " + (columns_[i].align == Align::left ? ":" + dashes : dashes + ":") + " |";
  }
  for (const auto& row : rows_) {
    lines += "|";
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      lines += " " + markdown_cell(row[i].text, widths_[i], columns_[i].align) + " |";
    }
    lines += "\n";
  }
  return titles + "\n" + rule + "\n" + lines;
}

}  // namespace reprise::detail
