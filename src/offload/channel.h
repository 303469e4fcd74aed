// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <reprise/store.h>

namespace reprise::detail {

/// One read or write of a channel. Belongs to the caller, and is untouchable while under way.
struct Transfer {
  bool write = false;
  int64_t offset = 0;
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t result = 0;  ///< bytes moved, or -errno
};

/// What lies below a block engine: one long array of bytes, such as a file, with reads and writes
/// under way at once. Here tests inject faults. One thread uses it at a time.
class Channel {
 public:
  virtual ~Channel() = default;

  /// What offsets and sizes of transfers must be multiples of.
  virtual int64_t alignment() const = 0;

  /// What addresses must be multiples of.
  virtual int64_t memory_alignment() const = 0;

  /// Makes the array that long, or says why not. Never shorter than it was.
  virtual std::optional<StoreFault> grow(int64_t bytes) = 0;

  /// By how much more the array could grow now.
  virtual int64_t growth() const = 0;

  virtual void submit(Transfer& transfer) = 0;

  /// Waits for one to end. REQUIRES: one is under way.
  virtual Transfer* reap() = 0;

  /// For people: how bytes get there, and what the place is called.
  virtual std::string path() const = 0;
  virtual std::string place() const = 0;

  virtual std::string advice() const { return {}; }

  /// Of threads of its own. Asked on any thread.
  virtual double processor_ms() const { return 0; }
};

}  // namespace reprise::detail
