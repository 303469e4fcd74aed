// SPDX-License-Identifier: BSD-3-Clause
#include "base/text_table.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "base/text_width.h"

namespace reprise::detail {
namespace {

TextTable example() {
  TextTable table(
      {{"name", Align::left}, {"peak"}, {"held", Align::right, 2}, {"note", Align::left, 1}});
  table.add_row({"plain", "10 MiB", "9 MiB", ""});
  table.add_row({"größe", "1 MiB", "512 KiB", {"equal", Tone::good}});
  return table;
}

TEST(TextTable, aligns_columns_and_leaves_no_space_at_the_end_of_a_line) {
  EXPECT_EQ(example().str(),
            "name     peak     held  note\n"
            "plain  10 MiB    9 MiB\n"
            "größe   1 MiB  512 KiB  equal\n");
}

TEST(TextTable, leaves_out_the_least_important_columns_and_names_them) {
  EXPECT_EQ(example().str({.width = 29}), example().str()) << "it fits exactly";
  EXPECT_EQ(example().str({.width = 28}),
            "name     peak  note\n"
            "plain  10 MiB\n"
            "größe   1 MiB  equal\n"
            "left out, as the terminal is narrow: held\n");
  EXPECT_EQ(example().str({.width = 13}),
            "name     peak\n"
            "plain  10 MiB\n"
            "größe   1 MiB\n"
            "left out, as the terminal is narrow: held, note\n");
}

TEST(TextTable, stacks_rows_where_even_the_columns_that_matter_do_not_fit) {
  EXPECT_EQ(example().str({.width = 12}),
            "plain\n"
            "  peak  10 MiB\n"
            "  held  9 MiB\n"
            "größe\n"
            "  peak  1 MiB\n"
            "  held  512 KiB\n"
            "  note  equal\n");
}

TEST(TextTable, colours_only_when_asked_and_then_without_moving_anything) {
  EXPECT_EQ(example().str({.colour = true}),
            "\033[1mname\033[0m     \033[1mpeak\033[0m     \033[1mheld\033[0m  "
            "\033[1mnote\033[0m\n"
            "plain  10 MiB    9 MiB\n"
            "größe   1 MiB  512 KiB  \033[32mequal\033[0m\n");
}

TEST(TextTable, keeps_each_row_on_one_line_whatever_its_cells_hold) {
  TextTable table({{"name", Align::left}, {"n"}});
  table.add_row({"a\nb\033[2J", "1"});
  table.add_row({"\xff", "22"});
  EXPECT_EQ(table.str(),
            "name      n\n"
            "a\uFFFDb\uFFFD[2J   1\n"
            "\uFFFD        22\n");
}

TEST(TextTable, refuses_a_row_of_another_number_of_cells) {
  TextTable table({{"name", Align::left}, {"n"}});
  EXPECT_THROW(table.add_row({"a"}), std::logic_error);
}

TEST(DisplayWidth, counts_columns_and_not_bytes) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("plain"), 5);
  EXPECT_EQ(display_width("größe"), 5);
  EXPECT_EQ(display_width("e\u0301"), 1) << "a combining accent";
  EXPECT_EQ(display_width("\u5C64"), 2) << "a wide character";
  EXPECT_EQ(display_width("\xff\xc3"), 2) << "one for each byte that is not UTF-8";
}

TEST(Printable, keeps_utf8_and_replaces_everything_else) {
  EXPECT_EQ(printable("a\u00F6\u5C64\U0001F600"), "a\u00F6\u5C64\U0001F600");
  EXPECT_EQ(printable(std::string("\0\x1b\x7f", 3)), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(printable("\xc0\xaf"), "\uFFFD\uFFFD") << "longer than need be";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD") << "half of a pair";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD") << "beyond the last plane";
  EXPECT_EQ(printable("\xe5\xb1"), "\uFFFD\uFFFD") << "cut off";
}

}  // namespace
}  // namespace reprise::detail
