// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace reprise::detail {

/// How a block is cut into pieces, each of which is one transfer; the same for sending and
/// fetching.
///
/// Direct transfers need memory at multiples of, often, 512, and LibTorch's memory lies at
/// multiples of 64. So of a large block the first bytes, up to such a multiple, are a piece by
/// themselves, and so are the last, which do not fill a unit of the file. What lies between needs
/// no copy; when it is fetched, neither, if the target lies like the source.
class Layout {
 public:
  // Eight of these under way keep a fast disk busy, and one fits the cache.
  static constexpr int64_t kPiece = int64_t{1} << 20;

  struct Piece {
    int64_t at = 0;      ///< in the block
    int64_t bytes = 0;   ///< at most kPiece
    int64_t offset = 0;  ///< in the block's place; a multiple of the unit
  };

  /// `unit`: of offsets and sizes in the file. `memory_unit`: of addresses.
  Layout(int64_t bytes, uint64_t address, int64_t unit, int64_t memory_unit) : unit_(unit) {
    const bool cut = unit > 1 && memory_unit <= unit && bytes >= kLarge;
    const auto beyond = static_cast<int64_t>(address % static_cast<uint64_t>(memory_unit));
    head_ = cut && beyond > 0 ? memory_unit - beyond : 0;
    const int64_t body = bytes - head_;
    tail_ = cut ? body % unit : 0;
    middle_ = body - tail_;
  }

  /// Bytes of the file.
  int64_t room() const { return middle_start() + (middle_ + tail_ + unit_ - 1) / unit_ * unit_; }

  int64_t pieces() const { return heads() + middle_pieces() + (tail_ > 0 ? 1 : 0); }

  Piece piece(int64_t index) const {
    if (index < heads()) return {0, head_, 0};
    const int64_t start = (index - heads()) * kPiece;
    if (start < middle_) {
      return {head_ + start, std::min(kPiece, middle_ - start), middle_start() + start};
    }
    return {head_ + middle_, tail_, middle_start() + middle_};
  }

 private:
  static constexpr int64_t kLarge = int64_t{256} << 10;  // two more transfers do not matter then

  int64_t unit_, head_ = 0, middle_ = 0, tail_ = 0;

  int64_t heads() const { return head_ > 0 ? 1 : 0; }
  int64_t middle_pieces() const { return (middle_ + kPiece - 1) / kPiece; }
  int64_t middle_start() const { return head_ > 0 ? unit_ : 0; }
};

}  // namespace reprise::detail
