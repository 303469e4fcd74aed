// SPDX-License-Identifier: BSD-3-Clause
#include "offload/packed_block.h"

#include <cstring>
#include <exception>
#include <optional>

namespace reprise::detail {
namespace {

/// The payload in its smallest form.
Payload encoded(PackedBlock& block, Payload payload) {
  const CompressedOptions& options = block.core->options;
  if (block.lossy) {
    const Buffer rounded = make_buffer(block.bytes / 2);
    round_to_bfloat16(payload.data.get(), block.bytes / 4, rounded.data.get());
    payload = {rounded.data, rounded.bytes, 2, false};
  }
  const Packing packing =
      choose_packing(payload.data.get(), payload.bytes, payload.element_size, options.min_gain);
  if (packing.codec == nullptr) return payload;
  if (options.only_if_faster && packing.bytes_per_second > 0 &&
      packing.bytes_per_second < block.core->below.stats().send_bandwidth()) {
    return payload;
  }
  const std::optional<Buffer> packed = pack(payload.data.get(), payload.bytes, payload.element_size,
                                            options.min_gain, packing.codec);
  if (!packed) return payload;
  block.packed = true;
  return {packed->data, packed->bytes, 1, false};
}

/// Of a block that could not be encoded, from its payload; without memory of its own.
void copy_payload(PackedBlock& block, void* target) {
  std::shared_ptr<const void> payload;
  {
    const std::lock_guard lock(block.core->mutex);
    payload = block.payload.data;
  }
  if (block.lossy) {
    auto* const to = static_cast<std::byte*>(target);
    const auto* const from = static_cast<const std::byte*>(payload.get());
    for (int64_t at = 0; at < block.bytes; at += 4) {
      uint16_t rounded = 0;
      round_to_bfloat16(from + at, 1, &rounded);
      widen_bfloat16(&rounded, 1, to + at);
    }
  } else {
    std::memcpy(target, payload.get(), static_cast<std::size_t>(block.bytes));
  }
}

void decode_into_target(PackedFetch& fetch) {
  PackedBlock& block = *fetch.block;
  if (!block.encoded->done()) {
    try {
      block.encoded->wait();
    } catch (const StoreError&) {  // its sender hears of it; the payload is still here
    }
  }
  if (!block.below) return copy_payload(block, fetch.target.get());
  if (!fetch.below) begin_fetch(fetch);
  fetch.below.wait();
  if (!block.packed && !block.lossy) return;

  Buffer halves = fetch.buffer;
  if (block.packed) {
    if (block.lossy) halves = make_buffer(block.bytes / 2);
    void* const out = block.lossy ? halves.data.get() : fetch.target.get();
    const int64_t bytes = block.lossy ? block.bytes / 2 : block.bytes;
    if (!unpack(fetch.buffer, out, bytes)) {
      throw StoreError({"cannot expand a block", "a compressed store", 0,
                        std::to_string(bytes) + " bytes", "something else",
                        "report it: the store below gave back other bytes than it took"});
    }
  }
  if (block.lossy) widen_bfloat16(halves.data.get(), block.bytes / 4, fetch.target.get());
}

StoreFault out_of_memory(const char* doing, const std::exception& error) {
  return {doing,
          "host memory",
          0,
          "room to work in",
          error.what(),
          "offload less, or without compression"};
}

}  // namespace

PackedBlock::PackedBlock(std::shared_ptr<CompressCore> core, Payload payload)
    : core(std::move(core)),
      bytes(payload.bytes),
      lossy(this->core->options.lossy_bfloat16 && payload.float32 && bytes % 4 == 0 && bytes > 0),
      payload(std::move(payload)) {}

PackedBlock::~PackedBlock() {
  below = Block();  // its place is free by the time that it counts as gone
  {
    const std::lock_guard lock(core->mutex);
    core->stats.blocks_held -= 1;
    core->stats.bytes_held -= bytes;
    if (!in_flight) return;
    core->bytes_in_flight -= bytes;
  }
  core->landed.notify_all();
}

void encode(std::shared_ptr<PackedBlock> block) {
  CompressCore& core = *block->core;
  Payload payload;
  {
    const std::lock_guard lock(core.mutex);
    payload = block->payload;
    core.sending.begin();
  }
  std::optional<StoreFault> fault;
  try {
    payload = encoded(*block, std::move(payload));
    const int64_t bytes = payload.bytes;
    block->below = Block(core.below.backend()->send(std::move(payload)), bytes);
  } catch (const std::exception& error) {
    fault = out_of_memory("cannot compress a block", error);
  }
  payload = {};
  {
    const std::lock_guard lock(core.mutex);
    core.sending.end();
    core.bytes_in_flight -= block->bytes;
    block->in_flight = false;
    if (fault) {
      ++core.stats.faults;
    } else {
      ++core.stats.blocks_sent;
      core.stats.bytes_sent += block->bytes;
      core.stats.blocks_compressed += block->packed ? 1 : 0;
      payload = std::move(block->payload);
    }
  }
  core.landed.notify_all();
  payload = {};
  const std::shared_ptr<Completion> completion = block->encoded;
  block = nullptr;
  completion->complete(std::move(fault));
}

void begin_fetch(PackedFetch& fetch) {
  const PackedBlock& block = *fetch.block;
  if (!block.packed && !block.lossy) {
    fetch.below = block.below.fetch(fetch.target);
  } else {
    fetch.buffer = make_buffer(block.below.bytes());
    fetch.below = block.below.fetch(fetch.buffer.data);
  }
}

void decode(std::shared_ptr<PackedFetch> fetch) {
  const std::shared_ptr<CompressCore> core = fetch->block->core;
  {
    const std::lock_guard lock(core->mutex);
    core->fetching.begin();
  }
  std::optional<StoreFault> fault;
  try {
    decode_into_target(*fetch);
  } catch (const StoreError& error) {
    fault = error.fault();
  } catch (const std::exception& error) {
    fault = out_of_memory("cannot expand a block", error);
  }
  {
    const std::lock_guard lock(core->mutex);
    core->fetching.end();
    if (fault) {
      ++core->stats.faults;
    } else {
      ++core->stats.blocks_fetched;
      core->stats.bytes_fetched += fetch->block->bytes;
    }
  }
  fetch->below = Fetch();
  fetch->buffer = {};
  const std::shared_ptr<Completion> arrived = fetch->arrived;
  fetch = nullptr;
  arrived->complete(std::move(fault));
}

}  // namespace reprise::detail
