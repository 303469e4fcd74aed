// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// What HTML and SVG share: text that cannot be taken for markup, and numbers.

namespace reprise::detail {

/// `text` for the inside of an element or of a quoted attribute. What is not UTF-8, and control
/// characters, become U+FFFD.
std::string escape(std::string_view text);

/// With `decimals` digits after the point, never in another locale's way. "inf" and "nan" are
/// those.
std::string fixed_number(double value, int decimals);

/// The same without the zeros that say nothing. What is not finite becomes 0: a picture has no
/// place for it.
std::string short_number(double value, int decimals = 1);

/// Six significant digits, "1e-12" where that is shorter.
std::string significant(double value);

/// "12.3 ms", "1.50 s": three significant digits or more.
std::string format_milliseconds(double milliseconds);

/// "1,234,567".
std::string format_count(int64_t value);

}  // namespace reprise::detail
