// SPDX-License-Identifier: BSD-3-Clause
#include "base/text_width.h"

#include <algorithm>
#include <array>

namespace reprise::detail {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Range {
  char32_t first;
  char32_t last;
};

// The blocks that matter for names: marks that combine, and what East Asian scripts and emoji draw
// two columns wide. wcwidth() would know more, but only under a locale that the program has set.
constexpr std::array<Range, 6> kCombining = {{{0x0300, 0x036F},
                                              {0x0483, 0x0489},
                                              {0x1AB0, 0x1AFF},
                                              {0x200B, 0x200F},
                                              {0x20D0, 0x20FF},
                                              {0xFE00, 0xFE0F}}};
constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115F},
                                         {0x2E80, 0x303E},
                                         {0x3041, 0xA4CF},
                                         {0xAC00, 0xD7A3},
                                         {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE6F},
                                         {0xFF00, 0xFF60},
                                         {0x1F300, 0x1FAFF},
                                         {0x20000, 0x3FFFD}}};

template <std::size_t N>
bool in(const std::array<Range, N>& ranges, char32_t character) {
  return std::any_of(ranges.begin(), ranges.end(), [character](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

bool is_control(char32_t character) {
  return character < 0x20 || (character >= 0x7F && character < 0xA0);
}

// Bytes of the character that `lead` begins; 0 when no character begins so.
std::size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Neither written longer than need be, nor half of a pair, nor beyond the last plane.
bool is_character(char32_t value, std::size_t length) {
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  return value >= kLeast[length] && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
}

}  // namespace

char32_t take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = length_of(lead);
  char32_t value = length <= 1 ? lead : lead & (0x7Fu >> length);
  bool whole = length >= 1 && length <= text.size();
  for (std::size_t i = 1; whole && i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    whole = (byte & 0xC0u) == 0x80;
    value = (value << 6) | (byte & 0x3Fu);
  }
  whole = whole && is_character(value, length);
  text.remove_prefix(whole ? length : 1);
  return whole ? value : kReplacement;
}

std::string utf8(char32_t character) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  if (character < 0x80) return {byte(character)};
  if (character < 0x800) return {byte(0xC0 | (character >> 6)), byte(0x80 | (character & 0x3F))};
  if (character < 0x10000) {
    return {byte(0xE0 | (character >> 12)), byte(0x80 | ((character >> 6) & 0x3F)),
            byte(0x80 | (character & 0x3F))};
  }
  return {byte(0xF0 | (character >> 18)), byte(0x80 | ((character >> 12) & 0x3F)),
          byte(0x80 | ((character >> 6) & 0x3F)), byte(0x80 | (character & 0x3F))};
}

int64_t display_width(std::string_view text) {
  int64_t width = 0;
  while (!text.empty()) {
    const char32_t character = take_character(text);
    if (in(kCombining, character)) continue;
    width += in(kWide, character) ? 2 : 1;
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const char32_t character = take_character(text);
    result += utf8(is_control(character) ? kReplacement : character);
  }
  return result;
}

}  // namespace reprise::detail
