// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace reprise::detail {

/// Goes on with a hash of a sequence.
inline void mix(uint64_t& hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  hash ^= hash >> 29U;
}

}  // namespace reprise::detail
