// SPDX-License-Identifier: BSD-3-Clause
#include "tape/encode.h"

#include <atomic>
#include <limits>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

namespace reprise::detail {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements for each thread, a multiple of 8

/// Packs elements into bits: 0 for `zero`, 1 for anything else; false if there is a third value.
template <class Word>
bool pack_bits(const Word* in, int64_t count, Word zero, Word one, uint8_t* out) {
  std::atomic<bool> two_valued{true};
  at::parallel_for(0, (count + 7) / 8, kGrain / 8, [&](int64_t begin, int64_t end) {
    bool third = false;
    for (int64_t byte = begin; byte < end; ++byte) {
      const int64_t first = byte * 8;
      const int64_t n = std::min<int64_t>(8, count - first);
      uint8_t bits = 0;
      for (int64_t i = 0; i < n; ++i) {
        const Word word = in[first + i];
        bits |= static_cast<uint8_t>((word != zero) << i);
        third |= (word != zero) & (word != one);
      }
      out[byte] = bits;
      if (third) break;
    }
    if (third) two_valued = false;
  });
  return two_valued;
}

template <class Word>
void unpack_bits(const uint8_t* in, int64_t count, Word zero, Word one, Word* out) {
  at::parallel_for(0, (count + 7) / 8, kGrain / 8, [&](int64_t begin, int64_t end) {
    for (int64_t byte = begin; byte < end; ++byte) {
      const int64_t first = byte * 8;
      const int64_t n = std::min<int64_t>(8, count - first);
      for (int64_t i = 0; i < n; ++i) out[first + i] = (in[byte] >> i) & 1 ? one : zero;
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
  encoded.payload_ = at::empty({(count + 7) / 8}, at::kByte);
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
