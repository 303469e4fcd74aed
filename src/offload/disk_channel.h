// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "offload/channel.h"
#include "offload/disk_file.h"

namespace reprise::detail {

/// What channels on a file have in common.
class DiskChannel : public Channel {
 public:
  explicit DiskChannel(std::shared_ptr<DiskFile> file) : file_(std::move(file)) {}

  int64_t alignment() const override { return file_->alignment(); }
  int64_t memory_alignment() const override { return file_->memory_alignment(); }
  std::optional<StoreFault> grow(int64_t bytes) override { return file_->grow(bytes); }
  int64_t growth() const override { return file_->available(); }
  std::string place() const override { return file_->place(); }
  std::string path() const override {
    return way() + (file_->direct() ? ", direct, " : ", through the page cache, ") + place();
  }
  std::string advice() const override;

 protected:
  const std::shared_ptr<DiskFile> file_;

 private:
  virtual std::string way() const = 0;
};

/// Reads and writes through io_uring; null where the kernel refuses it, as many containers do.
std::unique_ptr<Channel> uring_channel(std::shared_ptr<DiskFile> file);

/// Reads and writes on some threads.
std::unique_ptr<Channel> thread_channel(std::shared_ptr<DiskFile> file);

/// The best that works here. Throws StoreError.
std::unique_ptr<Channel> disk_channel(const std::string& folder, const DiskOptions& options);

}  // namespace reprise::detail
