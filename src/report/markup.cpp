// SPDX-License-Identifier: BSD-3-Clause
#include "report/markup.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/text_width.h"

namespace reprise::detail {

std::string escape(std::string_view text) {
  std::string result;
  for (const char character : printable(text)) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += character;
    }
  }
  return result;
}

std::string fixed_number(double value, int decimals) {
  std::array<char, 400> digits;  // the largest double has 309 before the point
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed, decimals);
  return {digits.data(), end.ptr};
}

std::string short_number(double value, int decimals) {
  if (!std::isfinite(value)) return "0";
  std::string text = fixed_number(value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

std::string significant(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::general, 6);
  return {digits.data(), end.ptr};
}

std::string format_milliseconds(double milliseconds) {
  const bool seconds = std::abs(milliseconds) >= 1000;
  const double value = seconds ? milliseconds / 1000 : milliseconds;
  const double size = std::abs(value);
  return fixed_number(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + (seconds ? " s" : " ms");
}

std::string format_count(int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > sign + 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace reprise::detail
