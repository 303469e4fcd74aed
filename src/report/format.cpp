// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cmath>
#include <cstdio>

#include <reprise/report.h>

// Bytes for people.

namespace reprise {

std::string format_bytes(int64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 and not 1024: "%.0f" would print "1024 KiB" for what is 1.00 MiB.
  while (std::abs(value) >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const double size = std::abs(value);
  const int decimals = unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, kUnits[unit]);
  return text.data();
}

}  // namespace reprise
