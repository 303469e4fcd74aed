// SPDX-License-Identifier: BSD-3-Clause
#include "offload/worker_pool.h"

#include <utility>

#include "offload/stopwatch.h"

namespace reprise::detail {

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([queue = queue_] { serve(*queue); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stop = true;
  }
  queue_->changed.notify_all();
  for (std::thread& thread : threads_) {
    // One of them comes here when memory that its work lets go of owned the pool.
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void WorkerPool::run(std::function<void()> work) {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->work.push_back(std::move(work));
  }
  queue_->changed.notify_one();
}

double WorkerPool::processor_ms() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->processor_ms;
}

void WorkerPool::serve(Queue& queue) {
  double counted = 0;
  while (true) {
    std::unique_lock lock(queue.mutex);
    const double now = processor_ms_of_this_thread();
    queue.processor_ms += now - std::exchange(counted, now);
    queue.changed.wait(lock, [&] { return queue.stop || !queue.work.empty(); });
    if (queue.work.empty()) return;
    const std::function<void()> work = std::move(queue.work.front());
    queue.work.pop_front();
    lock.unlock();
    work();
  }
}

}  // namespace reprise::detail
