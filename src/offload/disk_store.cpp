// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <utility>

#include <reprise/store.h>

#include "offload/disk_channel.h"
#include "offload/engine.h"
#include "offload/options.h"

namespace reprise {
namespace detail {

std::string DiskChannel::advice() const {
  if (!file_->in_memory()) return {};
  return "a DiskStore's folder lies in memory (" + file_->place() +
         "): what is offloaded there still takes memory. Name a folder on a disk.";
}

std::unique_ptr<Channel> disk_channel(const std::string& folder, const DiskOptions& options) {
  auto file = std::make_shared<DiskFile>(folder, options.keep_free);
  if (options.bytes_held != kNoLimit && options.bytes_held > file->available()) {
    throw StoreError({"cannot make a store", file->place(), 0,
                      std::to_string(options.bytes_held) + " bytes free beside " +
                          std::to_string(options.keep_free),
                      std::to_string(file->available()),
                      "make room there, name another folder, or hold less"});
  }
  if (options.direct) file->try_direct();
  std::unique_ptr<Channel> channel;
  if (options.io_uring) channel = uring_channel(file);
  return channel ? std::move(channel) : thread_channel(file);
}

}  // namespace detail

namespace {

std::shared_ptr<StoreBackend> make_disk_store(const std::string& folder,
                                              const DiskOptions& options) {
  // The system takes it for the root.
  if (folder.empty()) throw UsageError("a DiskStore's folder has no name", "name one on a disk");
  if (folder.find('\0') != std::string::npos) {
    throw UsageError("a DiskStore's folder has a byte of 0 in its name", "name one on a disk");
  }
  detail::require_positive("bytes_in_flight", options.bytes_in_flight);
  detail::require_positive("bytes_held", options.bytes_held);
  if (options.keep_free < 0) throw UsageError("keep_free is negative", "give 0 or more bytes");
  return std::make_shared<detail::BlockEngine>(detail::disk_channel(folder, options),
                                               options.bytes_in_flight, options.bytes_held);
}

}  // namespace

DiskStore::DiskStore(const std::string& folder, const DiskOptions& options)
    : Store(make_disk_store(folder, options)) {}

}  // namespace reprise
