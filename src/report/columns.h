// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reprise/text_style.h>

// Aligned columns of text, and numbers as they stand in them.

namespace reprise::detail {

using Row = std::vector<std::string>;

/// The rows as lines, the first of them the titles; see TextTable. Words stand left, numbers right:
/// `align` has an 'l' or an 'r' for each column, `ranks` a digit: that of a column's rank.
std::string columns(const std::vector<Row>& rows, const std::string& align,
                    const std::string& ranks, const TextStyle& style);

/// "1.23 G": powers of a thousand, three significant digits; "-" for zero.
std::string scaled(int64_t value);

/// "12.3 %".
std::string percent(double share);

}  // namespace reprise::detail
