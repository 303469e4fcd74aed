// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <unistd.h>

#include "offload/disk_channel.h"
#include "offload/worker_pool.h"

namespace reprise::detail {
namespace {

constexpr int kThreads = 4;

class ThreadChannel : public DiskChannel {
 public:
  using DiskChannel::DiskChannel;

  void submit(Transfer& transfer) override {
    pool_.run([this, &transfer] {
      const auto bytes = static_cast<std::size_t>(transfer.bytes);
      const ssize_t moved = transfer.write
                                ? ::pwrite(file_->fd(), transfer.data, bytes, transfer.offset)
                                : ::pread(file_->fd(), transfer.data, bytes, transfer.offset);
      transfer.result = moved < 0 ? -errno : moved;
      const std::lock_guard lock(mutex_);
      done_.push_back(&transfer);
      changed_.notify_one();
    });
  }

  double processor_ms() const override { return pool_.processor_ms(); }

  Transfer* reap() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !done_.empty(); });
    Transfer* const first = done_.front();
    done_.pop_front();
    return first;
  }

 private:
  std::string way() const override { return std::to_string(kThreads) + " threads"; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer*> done_;
  WorkerPool pool_{kThreads};  // ends first
};

}  // namespace

std::unique_ptr<Channel> thread_channel(std::shared_ptr<DiskFile> file) {
  return std::make_unique<ThreadChannel>(std::move(file));
}

}  // namespace reprise::detail
