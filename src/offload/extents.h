// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace reprise::detail {

/// Which parts of a file are taken: best fit, neighbours joined again when they are freed. Steps of
/// a training loop ask for the same sizes again and again, so freed parts fit the next step.
class Extents {
 public:
  /// Takes the smallest free part that has room; none: -1.
  int64_t take(int64_t bytes);

  /// Frees what take() gave, of the same size; or adds a new part at the end of the file.
  void free(int64_t offset, int64_t bytes);

  /// Free bytes at the very end of a file of `end` bytes.
  int64_t free_at_end(int64_t end) const;

  int64_t free_bytes() const { return free_bytes_; }

 private:
  std::map<int64_t, int64_t> by_offset_;           // offset -> size
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, offset)
  int64_t free_bytes_ = 0;

  void add(int64_t offset, int64_t bytes);
  void remove(std::map<int64_t, int64_t>::iterator part);
};

}  // namespace reprise::detail
