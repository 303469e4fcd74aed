// SPDX-License-Identifier: BSD-3-Clause
#include "offload/engine_thread.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace reprise::detail {
namespace {

constexpr int kSlots = 8;
constexpr int kTries = 100;  // in a row, without one byte moved

std::string checksum_text(uint64_t checksum) {
  char text[40];
  std::snprintf(text, sizeof text, "checksum %016llx", static_cast<unsigned long long>(checksum));
  return text;
}

/// The first of a queue that somebody still holds.
template <class State>
std::shared_ptr<State> pop(EngineCore& core, std::deque<std::weak_ptr<State>>& queue) {
  const std::lock_guard lock(core.mutex);
  while (!queue.empty()) {
    std::shared_ptr<State> state = queue.front().lock();
    queue.pop_front();
    if (state) return state;
  }
  return nullptr;
}

}  // namespace

EngineThread::EngineThread(std::shared_ptr<EngineCore> core)
    : core_(std::move(core)), channel_(core_->channel.get()), slots_(kSlots) {
  for (Slot& slot : slots_) {
    const int64_t unit = std::max(core_->alignment, core_->memory_alignment);
    if (unit > 1) {
      slot.buffer.reset(static_cast<std::byte*>(
          std::aligned_alloc(static_cast<std::size_t>(unit), Layout::kPiece)));
      if (!slot.buffer) throw std::bad_alloc();
    }
    idle_.push_back(&slot);
  }
}

void EngineThread::run() {
  while (true) {
    while (!idle_.empty()) {
      const std::shared_ptr<Job> job = next_job();
      if (!job) break;
      submit_piece(job);
    }
    if (idle_.size() < slots_.size()) {
      reap();
      continue;
    }
    std::unique_lock lock(core_->mutex);
    core_->work.wait(
        lock, [&] { return core_->stop || !core_->sends.empty() || !core_->fetches.empty(); });
    if (core_->stop && core_->sends.empty() && core_->fetches.empty()) return;
  }
}

std::shared_ptr<EngineThread::Job> EngineThread::next_job() {
  for (std::shared_ptr<Job>* job : {&fetching_, &sending_}) {
    if (*job && (*job)->submitted()) *job = nullptr;
  }
  if (!fetching_) fetching_ = begin_fetch();
  if (fetching_) return fetching_;
  if (!sending_) sending_ = begin_send();
  return sending_;
}

std::shared_ptr<EngineThread::Job> EngineThread::begin_fetch() {
  while (std::shared_ptr<FetchState> fetch = pop(*core_, core_->fetches)) {
    BlockState& block = *fetch->block;
    std::shared_ptr<const void> payload;
    {
      const std::lock_guard lock(core_->mutex);
      payload = block.payload;
      if (payload) {
        ++core_->stats.blocks_returned;
      } else {
        core_->fetching.begin();
      }
    }
    if (payload) {
      if (block.bytes > 0) {
        std::memcpy(fetch->target.get(), payload.get(), static_cast<std::size_t>(block.bytes));
      }
      const std::shared_ptr<Completion> arrived = fetch->arrived;
      fetch = nullptr;
      payload = nullptr;
      arrived->complete();
      continue;
    }
    auto job = std::make_shared<Job>();
    job->block = fetch->block;
    job->fetch = std::move(fetch);
    if (!job->submitted()) return job;
    finish(*job);  // an empty block
  }
  return nullptr;
}

std::shared_ptr<EngineThread::Job> EngineThread::begin_send() {
  while (std::shared_ptr<BlockState> block = pop(*core_, core_->sends)) {
    {
      const std::lock_guard lock(core_->mutex);
      core_->sending.begin();
    }
    auto job = std::make_shared<Job>();
    job->block = std::move(block);
    if (job->block->bytes > 0) {
      job->fault = core_->place(*job->block);
      job->block->checksums.resize(static_cast<std::size_t>(job->block->layout.pieces()));
    }
    if (!job->submitted()) return job;
    finish(*job);  // an empty block, or one without a place
  }
  return nullptr;
}

void EngineThread::submit_piece(const std::shared_ptr<Job>& job) {
  Slot& slot = *idle_.back();
  idle_.pop_back();
  BlockState& block = *job->block;
  slot.job = job;
  slot.index = job->next++;
  slot.piece = block.layout.piece(slot.index);
  slot.tries = 0;
  ++job->pending;

  // Nobody writes to the payload through this pointer: the transfer is a write to the channel.
  const void* whole = job->fetch ? job->fetch->target.get() : block.payload.get();
  std::byte* const memory = static_cast<std::byte*>(const_cast<void*>(whole)) + slot.piece.at;
  const int64_t unit = core_->alignment;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  slot.buffered = slot.piece.bytes % unit != 0 ||
                  address % static_cast<uintptr_t>(core_->memory_alignment) != 0;
  const int64_t padded = (slot.piece.bytes + unit - 1) / unit * unit;
  if (!job->fetch) {
    const auto bytes = static_cast<std::size_t>(slot.piece.bytes);
    block.checksums[static_cast<std::size_t>(slot.index)] = XXH3_64bits(memory, bytes);
    if (slot.buffered) {
      std::memcpy(slot.buffer.get(), memory, bytes);
      std::memset(slot.buffer.get() + bytes, 0, static_cast<std::size_t>(padded) - bytes);
    }
  }
  slot.transfer = {.write = !job->fetch,
                   .offset = block.offset + slot.piece.offset,
                   .data = slot.buffered ? slot.buffer.get() : memory,
                   .bytes = padded};
  channel_->submit(slot.transfer);
}

void EngineThread::reap() {
  Transfer* const transfer = channel_->reap();
  Slot& slot = *std::find_if(slots_.begin(), slots_.end(),
                             [&](const Slot& each) { return &each.transfer == transfer; });
  const int64_t result = transfer->result;
  if (result < transfer->bytes && !slot.job->fault) {
    const bool again = result == -EINTR || result == -EAGAIN;
    // A part of an aligned unit does not count.
    const int64_t moved = result > 0 ? result / core_->alignment * core_->alignment : 0;
    slot.tries = moved > 0 ? 0 : slot.tries + 1;
    if ((again || result > 0) && slot.tries < kTries) {
      transfer->offset += moved;
      transfer->data += moved;
      transfer->bytes -= moved;
      channel_->submit(*transfer);
      return;
    }
    slot.job->fault = io_fault(slot);
  }
  if (!slot.job->fault && slot.job->fetch) check_piece(slot);
  const std::shared_ptr<Job> job = std::move(slot.job);
  idle_.push_back(&slot);
  if (--job->pending == 0 && job->submitted()) finish(*job);
}

void EngineThread::check_piece(Slot& slot) {
  Job& job = *slot.job;
  std::byte* const target = static_cast<std::byte*>(job.fetch->target.get()) + slot.piece.at;
  const std::byte* const found = slot.buffered ? slot.buffer.get() : target;
  const auto bytes = static_cast<std::size_t>(slot.piece.bytes);
  const uint64_t expected = job.block->checksums[static_cast<std::size_t>(slot.index)];
  const uint64_t checksum = XXH3_64bits(found, bytes);
  if (checksum != expected) {
    job.fault = StoreFault{"bytes came back changed (" + std::to_string(bytes) + " of them)",
                           channel_->place(),
                           job.block->offset + slot.piece.offset,
                           checksum_text(expected),
                           checksum_text(checksum),
                           "the disk or the memory returned what was not written: do not trust it"};
  } else if (slot.buffered) {
    std::memcpy(target, found, bytes);
  }
}

void EngineThread::finish(Job& job) {
  BlockState& block = *job.block;
  std::shared_ptr<const void> payload;
  {
    const std::lock_guard lock(core_->mutex);
    StoreStats& stats = core_->stats;
    stats.processor_ms = processor_ms_of_this_thread();
    if (job.fetch) {
      core_->fetching.end();
      if (job.fault) {
        ++stats.faults;
      } else {
        ++stats.blocks_fetched;
        stats.bytes_fetched += block.bytes;
      }
    } else {
      core_->sending.end();
      if (job.fault) {
        core_->give_up(block);
      } else {
        ++stats.blocks_sent;
        stats.bytes_sent += block.bytes;
        payload = std::move(block.payload);
      }
      block.in_flight = false;
      core_->bytes_in_flight -= block.bytes;
    }
  }
  core_->landed.notify_all();

  // Lets go of everything first: who has waited finds memory free, and may drop the block for good.
  const std::shared_ptr<Completion> completion = job.fetch ? job.fetch->arrived : block.sent;
  for (std::shared_ptr<Job>* filling : {&fetching_, &sending_}) {
    if (filling->get() == &job) *filling = nullptr;
  }
  payload = nullptr;
  job.fetch = nullptr;
  job.block = nullptr;
  completion->complete(std::move(job.fault));
}

StoreFault EngineThread::io_fault(const Slot& slot) const {
  const Transfer& transfer = slot.transfer;
  const int64_t result = transfer.result;
  StoreFault fault{std::string("cannot ") + (transfer.write ? "write " : "read ") +
                       std::to_string(transfer.bytes) + " bytes",
                   channel_->place(),
                   transfer.offset,
                   std::to_string(transfer.bytes) + " bytes",
                   std::to_string(result) + " bytes",
                   "look for errors of the disk in the system's log"};
  if (result < 0) {
    const auto code = static_cast<int>(-result);
    fault.found = std::generic_category().message(code);
    if (code == ENOSPC || code == EDQUOT) {
      fault.hint = "make room there, name another folder, or offload less";
    }
  }
  return fault;
}

}  // namespace reprise::detail
