// SPDX-License-Identifier: BSD-3-Clause
#include "meter/block_log.h"

#include "meter/process_allocator.h"
#include "meter/replay_clock.h"
#include "torch/backward_pass.h"
#include "torch/call_watch.h"

namespace reprise::detail {
namespace {

// A block's number names its recording too: blocks outlive recordings.
constexpr int kIndexBits = 40;
constexpr uint64_t kIndexMask = (uint64_t{1} << kIndexBits) - 1;

thread_local int32_t current_module_index = 0;

CountingAllocator::Block* block_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.is_cpu()) return nullptr;
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  return CountingAllocator::block_of(storage.data_ptr());
}

}  // namespace

std::atomic<bool> BlockLog::recording_{false};

BlockLog& BlockLog::instance() {
  static auto* const log = new BlockLog;
  return *log;
}

bool BlockLog::begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (recording_) return false;
  ++session_;
  phase_ = 0;
  log_ = {};
  start_ = std::chrono::steady_clock::now();
  log_.base_bytes = process_allocator().counters().live();
  recording_ = true;
  return true;
}

void BlockLog::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  recording_ = false;
  log_ = {};
}

uint64_t BlockLog::made(std::size_t bytes) {
  BlockRecord block;
  block.bytes = static_cast<int64_t>(bytes);
  block.op = running_operator();
  block.module = current_module_index;
  block.replay = current_replay();
  block.in_backward = current_pass() != kNoPass;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!recording_) return 0;
  block.phase = phase_;
  block.made = static_cast<int64_t>(log_.events.size());
  note(static_cast<int64_t>(log_.blocks.size()), true);
  return add(block);
}

void BlockLog::freed(uint64_t number, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!recording_) return;
  BlockRecord* block = find(number);
  if (block == nullptr) {
    log_.base_bytes -= bytes;
    BlockRecord old;
    old.bytes = bytes;
    block = find(add(old));
  }
  block->freed = static_cast<int64_t>(log_.events.size());
  block->freed_in_replay = block->replay != 0 && block->replay == current_replay();
  note(block - log_.blocks.data(), false);
}

void BlockLog::identify(const at::Tensor& tensor, Category category, int32_t module) {
  CountingAllocator::Block* const memory = block_of(tensor);
  if (memory == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!recording_) return;
  BlockRecord& block = record_of(*memory);
  if (block.known && block.category <= category) return;
  block.known = true;
  block.category = category;
  block.module = module;
}

void BlockLog::identify_old(const at::Tensor& tensor, Category category) {
  CountingAllocator::Block* const memory = block_of(tensor);
  if (memory == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!recording_ || find(memory->number) != nullptr) return;
  BlockRecord& block = record_of(*memory);
  block.known = true;
  block.category = category;
}

void BlockLog::end_of_forward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  log_.forward_ends.push_back(static_cast<int64_t>(log_.events.size()));
}

void BlockLog::next_phase() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++phase_;
}

void BlockLog::enter_module(int32_t module) { current_module_index = module; }

BlockLog::Contents BlockLog::contents() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return log_;
}

int64_t BlockLog::event_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(log_.events.size());
}

double BlockLog::milliseconds() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
      .count();
}

BlockRecord* BlockLog::find(uint64_t number) {
  if (number >> kIndexBits != session_) return nullptr;
  return &log_.blocks[static_cast<std::size_t>(number & kIndexMask)];
}

BlockRecord& BlockLog::record_of(CountingAllocator::Block& memory) {
  if (BlockRecord* block = find(memory.number)) return *block;
  BlockRecord old;
  old.bytes = static_cast<int64_t>(memory.bytes);
  log_.base_bytes -= old.bytes;
  memory.number = add(old);
  return *find(memory.number);
}

uint64_t BlockLog::add(const BlockRecord& block) {
  log_.blocks.push_back(block);
  return (session_ << kIndexBits) | (log_.blocks.size() - 1);
}

void BlockLog::note(int64_t block, bool made) {
  log_.events.push_back({block, made, milliseconds()});
}

}  // namespace reprise::detail
