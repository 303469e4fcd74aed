// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <unistd.h>
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

namespace detail {

OwnProcess::OwnProcess() : id_(::getpid()) {}

bool OwnProcess::is_this() const { return id_ == ::getpid(); }

void OwnProcess::require(const char* doing) const {
  if (is_this()) return;
  throw StoreError({doing, "a store from before the process was forked", 0,
                    "process " + std::to_string(id_), "process " + std::to_string(::getpid()),
                    "make the store in the process that uses it"});
}

}  // namespace detail

StoredFetch& Fetch::stored() const {
  if (!stored_) throw UsageError("an empty Fetch is used", "get one from Block::fetch()");
  return *stored_;
}

void Fetch::wait() {
  if (!done()) process_.require("cannot wait for a fetch");
  stored().wait();
}

StoredBlock& Block::stored() const {
  if (!stored_) throw UsageError("an empty Block is used", "get one from Store::send()");
  return *stored_;
}

void Block::wait() {
  if (!done()) process_.require("cannot wait for a block");
  stored().wait();
}

Fetch Block::fetch(std::shared_ptr<void> target) const {
  StoredBlock& block = stored();
  if (bytes_ > 0 && !target) {
    throw UsageError("a block of " + std::to_string(bytes_) + " bytes is fetched into no memory",
                     "give a target with room for it");
  }
  process_.require("cannot fetch");
  return Fetch(block.fetch(std::move(target)));
}

Store::Store(std::shared_ptr<StoreBackend> backend) : backend_(std::move(backend)) {
  if (!backend_) throw UsageError("a Store without a backend", "use DiskStore, or one of your own");
}

Block Store::send(Payload payload) const {
  check(payload);
  process_.require("cannot send");
  const std::string advice = payload.copied ? std::string() : backend_->advice();
  if (!advice.empty()) detail::warn_once(advice, advice);
  const int64_t bytes = payload.bytes;
  return Block(backend_->send(std::move(payload)), bytes);
}

}  // namespace reprise
