// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <reprise/store.h>

#include "offload/options.h"
#include "offload/packed_block.h"
#include "offload/worker_pool.h"

namespace reprise {
namespace detail {
namespace {

/// The threads' queue is worked on in order, so that a block's encoding has begun before a fetch
/// that waits for it does.
class CompressedBackend : public StoreBackend,
                          public std::enable_shared_from_this<CompressedBackend> {
 public:
  CompressedBackend(const Store& below, const CompressedOptions& options)
      : core_(std::make_shared<CompressCore>(below, options)), pool_(options.threads) {}

  std::unique_ptr<StoredBlock> send(Payload payload) override;
  StoreStats stats() const override;
  int64_t room() const override { return core_->below.room(); }
  bool lossy() const override { return core_->options.lossy_bfloat16 || core_->below.lossy(); }

  CompressCore& core() { return *core_; }
  WorkerPool& pool() { return pool_; }

 private:
  const std::shared_ptr<CompressCore> core_;
  WorkerPool pool_;
};

class CompressedFetch : public StoredFetch {
 public:
  CompressedFetch(std::shared_ptr<CompressedBackend> backend, std::shared_ptr<PackedFetch> fetch)
      : backend_(std::move(backend)), fetch_(std::move(fetch)) {}

  bool done() const override { return fetch_->arrived->done(); }

  void wait() override {
    CompressCore& core = backend_->core();
    const WaitClock clock(core.mutex, core.stats.fetch_wait_ms);
    fetch_->arrived->wait();
  }

 private:
  const std::shared_ptr<CompressedBackend> backend_;  // dies last: it waits for the threads
  const std::shared_ptr<PackedFetch> fetch_;
};

class CompressedBlock : public StoredBlock {
 public:
  CompressedBlock(std::shared_ptr<CompressedBackend> backend, std::shared_ptr<PackedBlock> block)
      : backend_(std::move(backend)), block_(std::move(block)) {}

  bool done() const override {
    return block_->encoded->done() && (!block_->below || block_->below.done());
  }

  void wait() override {
    CompressCore& core = backend_->core();
    const WaitClock clock(core.mutex, core.stats.send_wait_ms);
    block_->encoded->wait();
    block_->below.wait();
  }

  std::shared_ptr<const void> payload() const override {
    if (backend_->lossy()) return nullptr;
    if (block_->encoded->done() && block_->below) {
      return block_->packed ? nullptr : block_->below.payload();
    }
    const std::lock_guard lock(block_->core->mutex);
    return block_->payload.data;
  }

  std::unique_ptr<StoredFetch> fetch(std::shared_ptr<void> target) override {
    auto fetch = std::make_shared<PackedFetch>();
    fetch->block = block_;
    fetch->target = std::move(target);
    if (block_->encoded->done() && block_->below) begin_fetch(*fetch);
    backend_->pool().run([weak = std::weak_ptr(fetch)] {
      if (std::shared_ptr<PackedFetch> held = weak.lock()) decode(std::move(held));
    });
    return std::make_unique<CompressedFetch>(backend_, std::move(fetch));
  }

 private:
  const std::shared_ptr<CompressedBackend> backend_;
  const std::shared_ptr<PackedBlock> block_;
};

std::unique_ptr<StoredBlock> CompressedBackend::send(Payload payload) {
  const int64_t bytes = payload.bytes;
  auto block = std::make_shared<PackedBlock>(core_, std::move(payload));
  const Stopwatch watch;
  {
    std::unique_lock lock(core_->mutex);
    core_->stats.blocks_held += 1;
    core_->stats.bytes_held += bytes;
    core_->landed.wait(lock, [&] {
      return core_->bytes_in_flight == 0 ||
             core_->bytes_in_flight <= core_->options.bytes_in_flight - bytes;
    });
    core_->bytes_in_flight += bytes;
    block->in_flight = true;
    core_->stats.send_wait_ms += watch.ms();
  }
  pool_.run([weak = std::weak_ptr(block)] {
    if (std::shared_ptr<PackedBlock> held = weak.lock()) encode(std::move(held));
  });
  return std::make_unique<CompressedBlock>(shared_from_this(), std::move(block));
}

StoreStats CompressedBackend::stats() const {
  const StoreStats below = core_->below.stats();
  const std::lock_guard lock(core_->mutex);
  StoreStats stats = core_->stats;
  stats.path = std::string(core_->options.lossy_bfloat16 ? "float32 as bfloat16, " : "") +
               "bytes shuffled, LZ4 or Zstandard, over " + below.path;
  stats.bytes_stored = below.bytes_stored;
  stats.send_ms = core_->sending.ms();
  stats.fetch_ms = core_->fetching.ms();
  stats.processor_ms = pool_.processor_ms() + below.processor_ms;
  return stats;
}

namespace {

constexpr int kMostThreads = 256;

}  // namespace

std::shared_ptr<StoreBackend> make_compressed_store(const Store& below,
                                                    const CompressedOptions& options) {
  require_positive("bytes_in_flight", options.bytes_in_flight);
  require_positive("the number of threads", options.threads);
  if (options.threads > kMostThreads) {
    throw UsageError("the number of threads is " + std::to_string(options.threads),
                     "give " + std::to_string(kMostThreads) + " at most");
  }
  if (!(options.min_gain >= 0 && options.min_gain < 1)) {
    throw UsageError("min_gain is " + std::to_string(options.min_gain),
                     "give the share that must be saved, from 0 to below 1");
  }
  return std::make_shared<CompressedBackend>(below, options);
}

}  // namespace
}  // namespace detail

CompressedStore::CompressedStore(const Store& below, const CompressedOptions& options)
    : Store(detail::make_compressed_store(below, options)) {}

}  // namespace reprise
