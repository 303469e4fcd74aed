// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>

namespace reprise::detail {

/// Finds places for blocks, so that those alive at one time do not overlap: the smallest gap that
/// is large enough, or the end.
class AddressSpace {
 public:
  explicit AddressSpace(int64_t base) : base_(base), end_(base) {}

  /// The block's address. REQUIRES: bytes above 0.
  int64_t allocate(int64_t bytes);

  /// REQUIRES: what allocate() returned, and the same bytes.
  void free(int64_t address, int64_t bytes);

  int64_t base() const { return base_; }
  int64_t end() const { return end_; }  ///< behind the highest address that was ever used

 private:
  int64_t base_;
  int64_t end_;
  std::map<int64_t, int64_t> gaps_;  // address to bytes; no two of them touch
};

}  // namespace reprise::detail
