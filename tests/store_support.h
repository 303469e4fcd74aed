// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <reprise/store.h>

// Payloads whose bytes follow from a seed, and that count how many of them are alive.

namespace reprise::tests {

inline std::atomic<int>& payloads_alive() {
  static std::atomic<int> count = 0;
  return count;
}

inline std::byte byte_at(uint64_t seed, int64_t i) {
  return static_cast<std::byte>((seed * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(i) * 197U) >>
                                (static_cast<uint64_t>(i) % 5U));
}

/// `shift`: how far the bytes lie from where an allocator would put them.
inline Payload payload_of(uint64_t seed, int64_t bytes, int64_t shift = 0) {
  auto* const memory = new std::vector<std::byte>(static_cast<std::size_t>(bytes + shift + 1));
  std::byte* const start = memory->data() + shift;
  for (int64_t i = 0; i < bytes; ++i) start[i] = byte_at(seed, i);
  ++payloads_alive();
  Payload payload;
  payload.data = std::shared_ptr<const void>(start, [memory](const void*) {
    // Whoever still read it would show.
    std::memset(memory->data(), 0xdd, memory->size());
    delete memory;
    --payloads_alive();
  });
  payload.bytes = bytes;
  return payload;
}

/// Memory to fetch into, full of something else.
struct Target {
  explicit Target(int64_t bytes, int64_t shift = 0)
      : all(std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes + shift + 1),
                                                     std::byte{0x33})),
        bytes(bytes),
        shift(shift) {}

  std::byte* start() const { return all->data() + shift; }
  std::shared_ptr<void> memory() const { return {all, start()}; }

  /// Exactly what was sent, and nothing written around it.
  bool holds(uint64_t seed) const {
    for (int64_t i = 0; i < bytes; ++i) {
      if (start()[i] != byte_at(seed, i)) return false;
    }
    for (int64_t i = 0; i < shift; ++i) {
      if ((*all)[static_cast<std::size_t>(i)] != std::byte{0x33}) return false;
    }
    return all->back() == std::byte{0x33};
  }

  std::shared_ptr<std::vector<std::byte>> all;
  int64_t bytes, shift;
};

/// Whether `holds` becomes true within some seconds: what is dropped in mid-transfer goes later.
inline bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 20'000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace reprise::tests
