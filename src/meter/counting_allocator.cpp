// SPDX-License-Identifier: BSD-3-Clause
#include "meter/counting_allocator.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <new>

#include <c10/core/alignment.h>

#include "meter/block_log.h"

namespace reprise::detail {
namespace {

// Stands in front of every block. A free gets nothing but the pointer, and needs the size. Neither
// other source of it will do: malloc_usable_size() counts what malloc rounded up to and knows only
// malloc's own blocks, so bytes would depend on the base; a side table needs a lock, or shards and
// hashing, on the hot path. The header costs 64 bytes, which keeps the alignment.
struct Header {
  uint64_t tag;
  CountingAllocator::Block block;
  CountingAllocator* owner;
  void* base_context;
  c10::DeleterFnPtr base_deleter;
  std::byte padding[64 - 3 * sizeof(void*) - sizeof(uint64_t) - sizeof(CountingAllocator::Block)];
};
static_assert(sizeof(Header) == 64 && sizeof(Header) % c10::gAlignment == 0);

std::atomic<c10::DeleterFnPtr> foreign_deleter{nullptr};

uint64_t tag_of(const void* data) {
  return 0x5265707269736531u ^ static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data));
}

Header* header_of(void* data) {
  return reinterpret_cast<Header*>(static_cast<std::byte*>(data) - sizeof(Header));
}

// What lies in front of a foreign block is not ours to read, though mapped: malloc's blocks that
// are aligned to 64 bytes begin at least 64 bytes into its heap.
__attribute__((no_sanitize("address", "thread"))) bool is_ours(void* data) {
  return header_of(data)->tag == tag_of(data);
}

}  // namespace

c10::DataPtr CountingAllocator::allocate(size_t bytes) {
  // No block, and no question to the base: if its answer were not null, it would have no header.
  if (bytes == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::DeviceType::CPU)};
  // No base can serve this; it says so in its own words.
  if (bytes > std::numeric_limits<size_t>::max() - sizeof(Header)) return base_.allocate(bytes);

  // Under a limit the bytes are counted first, so that no moment passes it.
  const bool limited = limit() != kUnlimited;
  if (limited) reserve(static_cast<int64_t>(bytes));
  c10::DataPtr block;
  try {
    block = base_.allocate(bytes + sizeof(Header));
  } catch (...) {
    if (limited) counters_.cancel(static_cast<int64_t>(bytes));
    throw;
  }
  auto* header = new (block.get()) Header;
  void* data = header + 1;
  header->tag = tag_of(data);
  header->block = {bytes, 0, 0};
  header->owner = this;
  header->base_context = block.get_context();
  header->base_deleter = block.get_deleter();
  block.release_context();
  if (!limited) counters_.add(static_cast<int64_t>(bytes));
  header->block.epoch = gauge_.add(static_cast<int64_t>(bytes));
  if (BlockLog::recording()) header->block.number = BlockLog::instance().made(bytes);
  // LibTorch's raw_allocate() takes only blocks whose context is the data itself.
  return {data, data, &free_block, block.device()};
}

void CountingAllocator::reserve(int64_t bytes) {
  if (try_reserve(bytes)) return;
  RoomMaker* maker = room_maker();
  if (maker == nullptr) throw std::bad_alloc();
  maker->make_room(*this, bytes);
}

void CountingAllocator::free_block(void* data) {
  if (data == nullptr) return;
  if (!is_ours(data)) {
    const c10::DeleterFnPtr deleter = foreign_deleter.load(std::memory_order_relaxed);
    TORCH_INTERNAL_ASSERT(deleter != nullptr, "reprise: not a block of the CPU allocator: ", data);
    return deleter(data);
  }
  Header* header = header_of(data);
  CountingAllocator* owner = header->owner;
  const auto bytes = static_cast<int64_t>(header->block.bytes);
  const uint64_t number = header->block.number;
  const Gauge::Epoch epoch = header->block.epoch;
  // Volatile, or the write is dropped as dead; a tag that stays could vouch for a foreign block.
  *static_cast<volatile uint64_t*>(&header->tag) = 0;
  header->base_deleter(header->base_context);
  // Only now: the bytes are in use until the base has them back.
  owner->counters_.subtract(bytes);
  owner->gauge_.subtract(bytes, epoch);
  if (BlockLog::recording()) BlockLog::instance().freed(number, bytes);
}

CountingAllocator::Block* CountingAllocator::block_of(const c10::DataPtr& data) {
  if (data.get_deleter() != &free_block || data.get() == nullptr) return nullptr;
  return is_ours(data.get()) ? &header_of(data.get())->block : nullptr;
}

void CountingAllocator::copy_data(void* to, const void* from, size_t bytes) const {
  base_.copy_data(to, from, bytes);
}

void CountingAllocator::set_foreign_deleter(c10::DeleterFnPtr deleter) {
  foreign_deleter.store(deleter, std::memory_order_relaxed);
}

}  // namespace reprise::detail
