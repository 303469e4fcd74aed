// SPDX-License-Identifier: BSD-3-Clause
#include "tape/encode.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

namespace reprise::detail {
namespace {

// Bits are packed in blocks, by loops of a fixed length, which compilers turn into vector code.
constexpr int64_t kBlock = 512;
constexpr int64_t kGrain = 64;  // blocks for each thread

/// One bit for each element of a block: 0 for `zero`, 1 for anything else. Returns whether there is
/// a value other than `zero` and `one`.
template <class Word>
bool pack_block(const Word* in, Word zero, Word one, uint8_t* out) {
  std::array<uint8_t, kBlock> set;
  Word third = 0;
  for (int64_t i = 0; i < kBlock; ++i) {
    const Word off = in[i] ^ zero;
    set[i] = off != 0;
    third |= static_cast<Word>(set[i] & (in[i] != one));
  }
  for (int64_t byte = 0; byte < kBlock / 8; ++byte) {
    uint64_t eight;
    std::memcpy(&eight, &set[8 * byte], 8);
    // Gathers the lowest bits of eight bytes in the highest byte.
    out[byte] = static_cast<uint8_t>((eight * 0x0102040810204080U) >> 56U);
  }
  return third != 0;
}

/// What four bits stand for.
template <class Word>
using Quads = std::array<std::array<Word, 4>, 16>;

template <class Word>
Quads<Word> quads_of(Word zero, Word one) {
  Quads<Word> quads;
  for (std::size_t bits = 0; bits < 16; ++bits) {
    for (std::size_t i = 0; i < 4; ++i) quads[bits][i] = bits >> i & 1U ? one : zero;
  }
  return quads;
}

template <class Word>
void unpack_block(const uint8_t* in, const Quads<Word>& quads, Word* out) {
  for (int64_t byte = 0; byte < kBlock / 8; ++byte) {
    std::memcpy(out + 8 * byte, &quads[in[byte] & 15U], 4 * sizeof(Word));
    std::memcpy(out + 8 * byte + 4, &quads[in[byte] >> 4U], 4 * sizeof(Word));
  }
}

int64_t blocks_of(int64_t count) { return (count + kBlock - 1) / kBlock; }

/// Packs elements into bits; false if there is a third value. `out` has room for whole blocks.
template <class Word>
bool pack_bits(const Word* in, int64_t count, Word zero, Word one, uint8_t* out) {
  std::atomic<bool> two_valued{true};
  at::parallel_for(0, blocks_of(count), kGrain, [&](int64_t begin, int64_t end) {
    bool third = false;
    for (int64_t block = begin; block < end && !third; ++block) {
      const int64_t first = block * kBlock;
      uint8_t* bits = out + first / 8;
      if (count - first >= kBlock) {
        third = pack_block(in + first, zero, one, bits);
      } else {
        std::array<Word, kBlock> last;
        last.fill(zero);
        std::copy_n(in + first, count - first, last.begin());
        third = pack_block(last.data(), zero, one, bits);
      }
    }
    if (third) two_valued = false;
  });
  return two_valued;
}

template <class Word>
void unpack_bits(const uint8_t* in, int64_t count, Word zero, Word one, Word* out) {
  const Quads<Word> quads = quads_of(zero, one);
  at::parallel_for(0, blocks_of(count), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock;
      if (count - first >= kBlock) {
        unpack_block(in + first / 8, quads, out + first);
      } else {
        std::array<Word, kBlock> last;
        unpack_block(in + first / 8, quads, last.data());
        std::copy_n(last.begin(), count - first, out + first);
      }
    }
  });
}

/// Calls `work` with an unsigned integer as wide as an element.
template <class Work>
bool with_word(std::size_t width, Work&& work) {
  switch (width) {
    case 1:
      return work(uint8_t{});
    case 2:
      return work(uint16_t{});
    case 4:
      return work(uint32_t{});
    case 8:
      return work(uint64_t{});
    default:
      return false;
  }
}

std::optional<at::ScalarType> narrowest(const at::Tensor& tensor) {
  const auto [low, high] = [&] {
    int64_t low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::min();
    const auto range = [&](const auto* data) {
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        low = std::min<int64_t>(low, data[i]);
        high = std::max<int64_t>(high, data[i]);
      }
    };
    if (tensor.scalar_type() == at::kLong) range(tensor.const_data_ptr<int64_t>());
    if (tensor.scalar_type() == at::kInt) range(tensor.const_data_ptr<int32_t>());
    if (tensor.scalar_type() == at::kShort) range(tensor.const_data_ptr<int16_t>());
    return std::pair(low, high);
  }();
  const auto fits = [&](auto limit) {
    using Limit = std::numeric_limits<decltype(limit)>;
    return low >= static_cast<int64_t>(Limit::min()) && high <= static_cast<int64_t>(Limit::max());
  };
  if (low > high) return std::nullopt;
  const std::size_t width = tensor.element_size();
  if (fits(uint8_t{})) return at::kByte;
  if (fits(int8_t{})) return at::kChar;
  if (width > 2 && fits(int16_t{})) return at::kShort;
  if (width > 4 && fits(int32_t{})) return at::kInt;
  return std::nullopt;
}

}  // namespace

std::optional<Encoded> Encoded::encode(const at::Tensor& tensor) {
  const Geometry geometry(tensor);
  if (!tensor.device().is_cpu() || tensor.numel() == 0 || tensor.is_conj() || tensor.is_neg() ||
      !geometry.covers(tensor.storage().nbytes())) {
    return std::nullopt;
  }
  const at::ScalarType type = tensor.scalar_type();
  const int64_t count = tensor.numel();
  if (at::isIntegralType(type, /*includeBool=*/false)) {
    const auto narrow = tensor.element_size() > 1 ? narrowest(tensor) : std::nullopt;
    if (!narrow) return std::nullopt;
    Encoded encoded(Form::narrow, tensor);
    const auto flat = at::empty({0}, tensor.options()).set_(tensor.storage(), 0, {count}, {1});
    encoded.payload_ = flat.to(*narrow);
    return encoded;
  }
  Encoded encoded(Form::bits, tensor);
  encoded.payload_ = at::empty({blocks_of(count) * kBlock / 8}, at::kByte);
  const bool packed = with_word(tensor.element_size(), [&](auto word) {
    using Word = decltype(word);
    const auto* data = static_cast<const Word*>(tensor.storage().data());
    const Word zero = data[0];
    Word one = zero;
    for (int64_t i = 1; i < count && one == zero; ++i) one = data[i];
    encoded.values_[0] = zero;
    encoded.values_[1] = one;
    return pack_bits(data, count, zero, one, encoded.payload_.template mutable_data_ptr<uint8_t>());
  });
  return packed ? std::optional(encoded) : std::nullopt;
}

at::Tensor Encoded::decode() const {
  const std::size_t width = c10::elementSize(geometry_.dtype);
  int64_t count = 1;
  for (const int64_t size : geometry_.sizes) count *= size;
  if (form_ == Form::narrow) return geometry_.on(payload_.to(geometry_.dtype).storage());
  const c10::Storage storage =
      empty_like_storage(static_cast<std::size_t>(count) * width, geometry_.device);
  with_word(width, [&](auto word) {
    using Word = decltype(word);
    unpack_bits(payload_.const_data_ptr<uint8_t>(), count, static_cast<Word>(values_[0]),
                static_cast<Word>(values_[1]), static_cast<Word*>(storage.mutable_data()));
    return true;
  });
  return geometry_.on(storage);
}

int64_t Encoded::bytes() const { return static_cast<int64_t>(payload_.nbytes()); }

}  // namespace reprise::detail
