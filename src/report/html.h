// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A small writer of HTML. Text and markup are of different types, so that what users name can never
// become markup.

namespace reprise::detail {

/// Markup, made by the functions below.
struct Html {
  std::string markup;
  Html& operator+=(const Html& other) {
    markup += other.markup;
    return *this;
  }
};

inline Html operator+(Html a, const Html& b) { return a += b; }

/// Plain text, escaped.
Html text(std::string_view plain);

/// `<name class="style">content</name>`, without the class where it is empty.
Html element(std::string_view name, std::string_view style, const Html& content);
Html element(std::string_view name, std::string_view style, std::string_view plain);

/// A heading, and what belongs to it.
Html section(std::string_view heading, const Html& content);

/// A bar of `share` of its cell, from 0 to 1, behind nothing: for eyes only.
Html bar(double share);

/// "key" over "value", as a card; a remark below may be empty.
Html card(std::string_view key, std::string_view value, std::string_view remark);

/// A table that scrolls sideways where it is too wide. The first column holds names.
class HtmlTable {
 public:
  enum class Kind { words, numbers };
  struct Column {
    std::string title;
    Kind kind = Kind::numbers;
  };
  explicit HtmlTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add_row(const std::vector<Html>& cells, std::string_view style = "");
  Html html() const;

 private:
  std::vector<Column> columns_;
  Html rows_;
};

/// The style sheet of the page around the pictures.
std::string_view page_style();

}  // namespace reprise::detail
