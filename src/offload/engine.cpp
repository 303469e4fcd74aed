// SPDX-License-Identifier: BSD-3-Clause
#include "offload/engine.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "offload/engine_thread.h"

namespace reprise::detail {
namespace {

constexpr int64_t kGrowth = int64_t{64} << 20;

int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

class EngineFetch : public StoredFetch {
 public:
  EngineFetch(std::shared_ptr<BlockEngine> engine, std::shared_ptr<FetchState> state)
      : engine_(std::move(engine)), state_(std::move(state)) {}

  bool done() const override { return state_->arrived->done(); }

  void wait() override {
    EngineCore& core = *engine_->core();
    const WaitClock clock(core.mutex, core.stats.fetch_wait_ms);
    state_->arrived->wait();
  }

 private:
  const std::shared_ptr<BlockEngine> engine_;  // dies last: it waits for the thread
  const std::shared_ptr<FetchState> state_;
};

class EngineBlock : public StoredBlock {
 public:
  EngineBlock(std::shared_ptr<BlockEngine> engine, std::shared_ptr<BlockState> state)
      : engine_(std::move(engine)), state_(std::move(state)) {}

  bool done() const override { return state_->sent->done(); }

  void wait() override {
    EngineCore& core = *engine_->core();
    const WaitClock clock(core.mutex, core.stats.send_wait_ms);
    state_->sent->wait();
  }

  std::shared_ptr<const void> payload() const override {
    const std::lock_guard lock(engine_->core()->mutex);
    return state_->payload;
  }

  std::unique_ptr<StoredFetch> fetch(std::shared_ptr<void> target) override {
    auto fetch = std::make_shared<FetchState>();
    fetch->block = state_;
    fetch->target = std::move(target);
    EngineCore& core = *engine_->core();
    {
      const std::lock_guard lock(core.mutex);
      core.fetches.push_back(fetch);
    }
    core.work.notify_one();
    return std::make_unique<EngineFetch>(engine_, std::move(fetch));
  }

 private:
  const std::shared_ptr<BlockEngine> engine_;
  const std::shared_ptr<BlockState> state_;
};

}  // namespace

BlockState::BlockState(std::shared_ptr<EngineCore> core, Payload payload)
    : core(std::move(core)),
      bytes(payload.bytes),
      layout(bytes, reinterpret_cast<uintptr_t>(payload.data.get()), this->core->alignment,
             this->core->memory_alignment),
      room(layout.room()),
      payload(std::move(payload.data)) {}

BlockState::~BlockState() {
  {
    const std::lock_guard lock(core->mutex);
    if (offset >= 0) core->extents.free(offset, room);
    if (claims) core->bytes_claimed -= room;
    core->stats.blocks_held -= 1;
    core->stats.bytes_held -= bytes;
    if (!in_flight) return;
    core->bytes_in_flight -= bytes;
  }
  core->landed.notify_all();
}

EngineCore::EngineCore(std::unique_ptr<Channel> channel, int64_t most_in_flight, int64_t most_held)
    : channel(std::move(channel)),
      most_in_flight(most_in_flight),
      most_held(most_held),
      alignment(this->channel->alignment()),
      memory_alignment(this->channel->memory_alignment()) {
  stats.path = this->channel->path();
}

std::optional<StoreFault> EngineCore::place(BlockState& block) {
  std::unique_lock lock(mutex);
  block.offset = extents.take(block.room);
  if (block.offset >= 0) return {};
  // Only this thread takes room and grows, so what is missing cannot become more meanwhile.
  const int64_t missing = block.room - extents.free_at_end(end);
  const int64_t old_end = end;
  lock.unlock();
  if (missing > most_held - old_end) {
    return StoreFault{"cannot place " + std::to_string(block.bytes) + " bytes",
                      channel->place(),
                      0,
                      "one free part of " + std::to_string(block.room) + " bytes",
                      "smaller ones",
                      "let the store hold more: what is free is in pieces"};
  }

  // Generous steps, since growing takes time and small ones scatter a file over the disk.
  const int64_t generous =
      std::min(round_up(std::max(missing, old_end / 8 + kGrowth), alignment), most_held - old_end);
  int64_t step = std::max(missing, generous);
  std::optional<StoreFault> fault = channel->grow(old_end + step);
  if (fault && step > missing) {
    step = missing;
    fault = channel->grow(old_end + step);
  }
  if (fault) return fault;

  lock.lock();
  extents.free(old_end, step);
  end += step;
  block.offset = extents.take(block.room);
  return {};
}

void EngineCore::give_up(BlockState& block) {
  ++stats.faults;
  if (block.offset >= 0) extents.free(std::exchange(block.offset, -1), block.room);
  if (std::exchange(block.claims, false)) bytes_claimed -= block.room;
}

BlockEngine::BlockEngine(std::unique_ptr<Channel> channel, int64_t most_in_flight,
                         int64_t most_held)
    : core_(std::make_shared<EngineCore>(std::move(channel), most_in_flight, most_held)),
      thread_([thread = EngineThread(core_)]() mutable { thread.run(); }) {}

BlockEngine::~BlockEngine() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->stop = true;
  }
  core_->work.notify_one();
  // The thread itself comes here when memory that it lets go of owned the store.
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

std::unique_ptr<StoredBlock> BlockEngine::send(Payload payload) {
  auto state = std::make_shared<BlockState>(core_, std::move(payload));
  const int64_t bytes = state->bytes, room = state->room;
  const Stopwatch watch;
  std::unique_lock lock(core_->mutex);
  StoreStats& stats = core_->stats;
  stats.blocks_held += 1;
  stats.bytes_held += bytes;
  core_->bytes_claimed += room;
  if (core_->bytes_claimed > core_->most_held) {
    core_->give_up(*state);
    const int64_t left = core_->most_held - core_->bytes_claimed;
    lock.unlock();
    state->sent->complete(
        StoreFault{"cannot take " + std::to_string(bytes) + " bytes", core_->channel->place(), 0,
                   "room for " + std::to_string(room) + " bytes",
                   std::to_string(left) + " left of " + std::to_string(core_->most_held),
                   "let the store hold more, or offload less"});
    return std::make_unique<EngineBlock>(shared_from_this(), std::move(state));
  }
  core_->landed.wait(lock, [&] {
    return core_->bytes_in_flight == 0 || core_->bytes_in_flight <= core_->most_in_flight - bytes;
  });
  core_->bytes_in_flight += bytes;
  state->in_flight = true;
  core_->sends.push_back(state);
  stats.send_wait_ms += watch.ms();
  lock.unlock();
  core_->work.notify_one();
  return std::make_unique<EngineBlock>(shared_from_this(), std::move(state));
}

StoreStats BlockEngine::stats() const {
  const std::lock_guard lock(core_->mutex);
  StoreStats stats = core_->stats;
  stats.bytes_stored = core_->end - core_->extents.free_bytes();
  stats.send_ms = core_->sending.ms();
  stats.fetch_ms = core_->fetching.ms();
  stats.processor_ms += core_->channel->processor_ms();
  return stats;
}

int64_t BlockEngine::room() const {
  std::unique_lock lock(core_->mutex);
  const int64_t limit = core_->most_held - core_->bytes_claimed;
  const int64_t claimed_beyond = core_->bytes_claimed - core_->end;
  lock.unlock();
  // growth() only asks the system, so it may run beside the thread.
  return std::max<int64_t>(0, std::min(limit, core_->channel->growth() - claimed_beyond));
}

}  // namespace reprise::detail
