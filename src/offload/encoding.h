// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace reprise::detail {

struct Buffer {
  std::shared_ptr<std::byte> data;
  int64_t bytes = 0;
};

/// Throws std::bad_alloc.
Buffer make_buffer(int64_t bytes);

/// How to pack a block.
struct Packing {
  const char* codec = nullptr;  ///< Blosc's name of it; null: a block like this does not shrink
  double bytes_per_second = 0;  ///< at which the sample was packed
};

/// Packs samples of a block with LZ4 and with Zstandard. LZ4 is some times faster, so it wins
/// unless Zstandard saves a good deal more.
Packing choose_packing(const void* data, int64_t bytes, int element_size, double min_gain);

/// Shuffles bytes by element size and compresses. None: it would not shrink by `min_gain`.
std::optional<Buffer> pack(const void* data, int64_t bytes, int element_size, double min_gain,
                           const char* codec);

/// Whether `packed` held exactly `bytes`.
bool unpack(const Buffer& packed, void* data, int64_t bytes);

/// To the nearest bfloat16, ties to even; a NaN stays one. `count` numbers, memory of any
/// alignment.
void round_to_bfloat16(const void* floats, int64_t count, void* rounded);
void widen_bfloat16(const void* rounded, int64_t count, void* floats);

}  // namespace reprise::detail
