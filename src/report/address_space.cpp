// SPDX-License-Identifier: BSD-3-Clause
#include "report/address_space.h"

#include <iterator>

namespace reprise::detail {

int64_t AddressSpace::allocate(int64_t bytes) {
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= bytes && (best == gaps_.end() || gap->second < best->second)) best = gap;
  }
  if (best == gaps_.end()) {
    const int64_t address = end_;
    end_ += bytes;
    return address;
  }
  const auto [address, size] = *best;
  gaps_.erase(best);
  if (size > bytes) gaps_[address + bytes] = size - bytes;
  return address;
}

void AddressSpace::free(int64_t address, int64_t bytes) {
  auto next = gaps_.lower_bound(address);
  if (next != gaps_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  gaps_[address] = bytes;
}

}  // namespace reprise::detail
