// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <utility>

#include <reprise/store.h>

#include "torch/warning.h"

namespace reprise {
namespace {

std::string text_of(const StoreFault& fault) {
  return fault.doing + ": " + fault.file + ", offset " + std::to_string(fault.offset) +
         ": expected " + fault.expected + ", found " + fault.found;
}

double per_second(int64_t bytes, double ms) {
  return ms > 0 ? 1000 * static_cast<double>(bytes) / ms : 0;
}

void check(const Payload& payload) {
  if (payload.bytes < 0 || (payload.bytes > 0 && !payload.data)) {
    throw UsageError("a payload of " + std::to_string(payload.bytes) + " bytes " +
                         (payload.data ? "cannot be" : "without data"),
                     "give the memory, and how many bytes it has");
  }
  if (payload.element_size < 1 || payload.element_size > 16) {
    throw UsageError("a payload's element size is " + std::to_string(payload.element_size),
                     "it is between 1 and 16 bytes");
  }
}

}  // namespace

StoreError::StoreError(StoreFault fault)
    : Error(text_of(fault), fault.hint), fault_(std::move(fault)) {}

StoredFetch::~StoredFetch() = default;
StoredBlock::~StoredBlock() = default;
StoreBackend::~StoreBackend() = default;

double StoreStats::send_bandwidth() const { return per_second(bytes_sent, send_ms); }
double StoreStats::fetch_bandwidth() const { return per_second(bytes_fetched, fetch_ms); }

Block Store::send(Payload payload) const {
  check(payload);
  const std::string advice = payload.copied ? std::string() : backend_->advice();
  if (!advice.empty()) detail::warn_once(advice, advice);
  const int64_t bytes = payload.bytes;
  return Block(backend_->send(std::move(payload)), bytes);
}

}  // namespace reprise
