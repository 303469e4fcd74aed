// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace reprise {

/// How a table for people is laid out: for a file or a pipe by default, for a terminal when its
/// width is given.
struct TextStyle {
  int64_t width = 0;    ///< columns that a line may have; 0: as many as it needs. Default: 0
  bool colour = false;  ///< bold headings, verdicts in green and red. Default: none
};

}  // namespace reprise
