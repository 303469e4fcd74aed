// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::detail {

/// Takes the first character off `text`, which must not be empty. What is not UTF-8 comes byte by
/// byte, as U+FFFD.
char32_t take_character(std::string_view& text);

/// `character` in UTF-8.
std::string utf8(char32_t character);

/// Columns of a terminal that `text` takes: none for combining marks, two for wide characters.
int64_t display_width(std::string_view text);

/// `text` on one line and in UTF-8: what is not, and control characters, become U+FFFD.
std::string printable(std::string_view text);

}  // namespace reprise::detail
