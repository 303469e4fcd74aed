// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <reprise/store.h>

namespace reprise::detail {

/// A file without a name: made with O_TMPFILE where the file system can, else unlinked as soon as
/// it is open. The system frees it when the process ends, however that happens.
class DiskFile {
 public:
  /// Throws StoreError. `keep_free`: bytes of the file system that grow() leaves. `born_nameless`:
  /// tries O_TMPFILE first.
  DiskFile(const std::string& folder, int64_t keep_free, bool born_nameless = true);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  int fd() const { return fd_; }
  const std::string& place() const { return place_; }

  /// Past the page cache from now on, if a write and a read that way work. Says whether they did.
  bool try_direct();

  bool direct() const { return direct_; }
  int64_t alignment() const { return direct_ ? offset_alignment_ : 1; }
  int64_t memory_alignment() const { return direct_ ? memory_alignment_ : 1; }

  /// Reserves the space, so that a full disk shows here and not in a write later.
  std::optional<StoreFault> grow(int64_t bytes);

  /// Bytes that the file system has beyond keep_free. Thread-safe.
  int64_t available() const;

  /// Of a file system that lives in memory.
  bool in_memory() const;

 private:
  const std::string place_;
  const int64_t keep_free_;
  int fd_ = -1;
  bool direct_ = false;
  int64_t offset_alignment_ = 4096, memory_alignment_ = 4096;
  int64_t length_ = 0;

  StoreFault fault(const std::string& doing, int64_t offset, int error) const;
};

}  // namespace reprise::detail
