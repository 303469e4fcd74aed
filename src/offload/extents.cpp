// SPDX-License-Identifier: BSD-3-Clause
#include "offload/extents.h"

#include <iterator>

namespace reprise::detail {

void Extents::add(int64_t offset, int64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void Extents::remove(std::map<int64_t, int64_t>::iterator part) {
  by_size_.erase({part->second, part->first});
  free_bytes_ -= part->second;
  by_offset_.erase(part);
}

int64_t Extents::take(int64_t bytes) {
  const auto best = by_size_.lower_bound({bytes, 0});
  if (best == by_size_.end()) return -1;
  const auto [size, offset] = *best;
  remove(by_offset_.find(offset));
  if (size > bytes) add(offset + bytes, size - bytes);
  return offset;
}

void Extents::free(int64_t offset, int64_t bytes) {
  auto after = by_offset_.lower_bound(offset);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      remove(before);
    }
  }
  if (after != by_offset_.end() && offset + bytes == after->first) {
    bytes += after->second;
    remove(after);
  }
  add(offset, bytes);
}

int64_t Extents::free_at_end(int64_t end) const {
  if (by_offset_.empty()) return 0;
  const auto& [offset, bytes] = *by_offset_.rbegin();
  return offset + bytes == end ? bytes : 0;
}

}  // namespace reprise::detail
