// SPDX-License-Identifier: BSD-3-Clause
#include "offload/encoding.h"

#include <algorithm>
#include <array>
#include <blosc.h>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "offload/stopwatch.h"

namespace reprise::detail {
namespace {

constexpr int kLevel = 1;                          // higher ones cost far more than they gain
constexpr int64_t kPart = int64_t{64} << 20;       // Blosc counts in int
constexpr int64_t kSample = 64 << 10;              // three of these
constexpr int64_t kAlwaysWhole = 4 * 3 * kSample;  // a block not much larger than its samples
constexpr double kZstdMustSave = 0.05;             // of the block, beyond what LZ4 saves

/// Packed bytes, or 0 if there is no room for them.
int64_t pack_part(const std::byte* data, int64_t bytes, int element_size, const char* codec,
                  std::byte* out, int64_t room) {
  // Blosc looks for the processor's abilities at the first call, which must be one thread's.
  static std::once_flag once;
  std::call_once(once, [] {
    std::array<char, 64> in{};
    std::array<char, 64 + BLOSC_MAX_OVERHEAD> packed;
    blosc_compress_ctx(1, 1, 4, in.size(), in.data(), packed.data(), packed.size(), "lz4", 0, 1);
  });
  const int made = blosc_compress_ctx(kLevel, BLOSC_SHUFFLE, static_cast<std::size_t>(element_size),
                                      static_cast<std::size_t>(bytes), data, out,
                                      static_cast<std::size_t>(room), codec, 0, 1);
  return std::max(made, 0);
}

int64_t most_packed(int64_t bytes, double min_gain) {
  return static_cast<int64_t>(static_cast<double>(bytes) * (1 - min_gain));
}

template <class Word>
Word load(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace

Buffer make_buffer(int64_t bytes) {
  auto* const memory = static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  return {std::shared_ptr<std::byte>(memory, std::free), bytes};
}

Packing choose_packing(const void* data, int64_t bytes, int element_size, double min_gain) {
  if (bytes < kAlwaysWhole) return {BLOSC_ZSTD_COMPNAME, 0};
  const auto* const from = static_cast<const std::byte*>(data);
  const Buffer sample = make_buffer(3 * kSample), out = make_buffer(3 * kSample);
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t at = (bytes - kSample) / 2 * i / element_size * element_size;
    std::memcpy(sample.data.get() + i * kSample, from + at, kSample);
  }
  struct Trial {
    double saved, bytes_per_second;
  };
  const auto attempt = [&](const char* codec) {
    const Stopwatch watch;
    const int64_t made =
        pack_part(sample.data.get(), sample.bytes, element_size, codec, out.data.get(), out.bytes);
    const double ms = std::max(watch.ms(), 1e-3);
    const auto all = static_cast<double>(sample.bytes);
    return Trial{made == 0 ? 0 : 1 - static_cast<double>(made) / all, 1000 * all / ms};
  };
  const Trial lz4 = attempt(BLOSC_LZ4_COMPNAME), zstd = attempt(BLOSC_ZSTD_COMPNAME);
  const bool fast = lz4.saved >= min_gain && lz4.saved >= zstd.saved - kZstdMustSave;
  if (fast) return {BLOSC_LZ4_COMPNAME, lz4.bytes_per_second};
  return {zstd.saved >= min_gain ? BLOSC_ZSTD_COMPNAME : nullptr, zstd.bytes_per_second};
}

std::optional<Buffer> pack(const void* data, int64_t bytes, int element_size, double min_gain,
                           const char* codec) {
  const int64_t most = most_packed(bytes, min_gain);
  if (most <= 0) return {};
  const auto* const from = static_cast<const std::byte*>(data);
  // Pages beyond what is packed are never touched, so they cost nothing.
  const Buffer out = make_buffer(most);
  int64_t made = 0;
  for (int64_t at = 0; at < bytes; at += kPart) {
    const int64_t packed = pack_part(from + at, std::min(kPart, bytes - at), element_size, codec,
                                     out.data.get() + made, std::min(most - made, 2 * kPart));
    if (packed == 0) return {};
    made += packed;
  }
  return Buffer{out.data, made};
}

bool unpack(const Buffer& packed, void* data, int64_t bytes) {
  auto* const to = static_cast<std::byte*>(data);
  int64_t from = 0;
  for (int64_t at = 0; at < bytes; at += kPart) {
    const auto wanted = static_cast<std::size_t>(std::min(kPart, bytes - at));
    const std::byte* const part = packed.data.get() + from;
    if (packed.bytes - from < BLOSC_MIN_HEADER_LENGTH) return false;
    std::size_t holds = 0, takes = 0, block = 0;
    blosc_cbuffer_sizes(part, &holds, &takes, &block);
    if (holds != wanted || takes > static_cast<std::size_t>(packed.bytes - from)) return false;
    if (blosc_cbuffer_validate(part, takes, &holds) != 0) return false;
    if (blosc_decompress_ctx(part, to + at, wanted, 1) != static_cast<int>(wanted)) return false;
    from += static_cast<int64_t>(takes);
  }
  return from == packed.bytes;
}

void round_to_bfloat16(const void* floats, int64_t count, void* rounded) {
  const auto* const from = static_cast<const std::byte*>(floats);
  auto* const to = static_cast<std::byte*>(rounded);
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = load<uint32_t>(from + 4 * i);
    const uint32_t nearest = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
    const uint32_t nan = bits >> 16U | 0x40U;  // quiet, so that it does not become an infinity
    const auto half = static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : nearest);
    std::memcpy(to + 2 * i, &half, 2);
  }
}

void widen_bfloat16(const void* rounded, int64_t count, void* floats) {
  const auto* const from = static_cast<const std::byte*>(rounded);
  auto* const to = static_cast<std::byte*>(floats);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = uint32_t{load<uint16_t>(from + 2 * i)} << 16U;
    std::memcpy(to + 4 * i, &bits, 4);
  }
}

}  // namespace reprise::detail
