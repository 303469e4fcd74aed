// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/words.h"

#include <charconv>
#include <cmath>

#include <reprise/suggest.h>

namespace reprise::workloads {
namespace {

template <class Number>
std::optional<Number> parse_all(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> parse_whole(std::string_view text, int64_t least, int64_t most) {
  const auto value = parse_all<int64_t>(text);
  if (!value || *value < least || *value > most) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  const auto value = parse_all<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         const std::string& otherwise) {
  const std::vector<std::string> near = nearest_words(word, known);
  if (near.empty()) return otherwise;
  return "did you mean '" + near.front() + "'? " + otherwise;
}

}  // namespace reprise::workloads
