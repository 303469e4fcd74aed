// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <string>
#include <utility>

#include <reprise/store.h>

#include "offload/engine.h"
#include "offload/memory_channel.h"
#include "offload/options.h"

namespace reprise {
namespace {

constexpr int64_t kAlignment = 4096;

std::shared_ptr<void> ordinary_memory(int64_t bytes) {
  const int64_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, static_cast<std::size_t>(padded));
  if (memory == nullptr) {
    throw StoreError({"cannot make a HostStore", "host memory", 0, std::to_string(bytes) + " bytes",
                      "not so many", "make it smaller, or use a DiskStore"});
  }
  return {memory, std::free};
}

std::shared_ptr<StoreBackend> make_host_store(int64_t bytes, const HostOptions& options) {
  detail::require_positive("a HostStore's size", bytes);
  detail::require_positive("bytes_in_flight", options.bytes_in_flight);
  const bool ordinary = !options.allocate;
  std::shared_ptr<void> pool = ordinary ? ordinary_memory(bytes) : options.allocate(bytes);
  if (!pool) {
    throw UsageError("HostOptions::allocate gave no memory", "let it throw, or give a block");
  }
  const std::string advice =
      ordinary
          ? "a HostStore keeps bytes in the memory of this machine: for a model that trains on "
            "the CPU it saves none. Use a DiskStore, or a CompressedStore around this one."
          : "";
  return std::make_shared<detail::BlockEngine>(
      detail::memory_channel(std::move(pool), bytes,
                             ordinary ? "host memory" : "host memory made by the caller", advice),
      options.bytes_in_flight, bytes);
}

}  // namespace

HostStore::HostStore(int64_t bytes, const HostOptions& options)
    : Store(make_host_store(bytes, options)) {}

}  // namespace reprise
