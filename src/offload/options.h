// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/error.h>

namespace reprise::detail {

/// Throws UsageError unless value > 0.
inline void require_positive(const std::string& what, int64_t value) {
  if (value > 0) return;
  throw UsageError(what + " is " + std::to_string(value), "give a positive number");
}

}  // namespace reprise::detail
