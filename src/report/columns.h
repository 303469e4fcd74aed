// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Aligned columns of text, and numbers as they stand in them.

namespace reprise::detail {

using Row = std::vector<std::string>;

/// The rows as lines, columns two spaces apart. Words stand left, numbers right: `align` has an 'l'
/// or an 'r' for each column.
std::string columns(const std::vector<Row>& rows, const std::string& align);

/// "12.34": `decimals` digits after the point.
std::string fixed(double value, int decimals);

/// "1,234,567".
std::string grouped(int64_t value);

/// "1.23 G": powers of a thousand, three significant digits; "-" for zero.
std::string scaled(int64_t value);

/// "12.3 %".
std::string percent(double share);

}  // namespace reprise::detail
