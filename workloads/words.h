// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Reading what people type: numbers that must be right to the last character, and the word that was
// probably meant.

namespace reprise::workloads {

/// A decimal whole number, digits only, from `least` to `most`. Empty for anything else.
std::optional<int64_t> parse_whole(std::string_view text, int64_t least, int64_t most);

/// A finite decimal number. Empty for anything else.
std::optional<double> parse_real(std::string_view text);

/// The parts of `text` between separators; one empty part for an empty text.
std::vector<std::string> split(std::string_view text, char separator);

/// "a, b, c".
std::string join(const std::vector<std::string>& words);

/// "did you mean 'train'? <otherwise>" or, where nothing is near, `otherwise` alone.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         const std::string& otherwise);

}  // namespace reprise::workloads
