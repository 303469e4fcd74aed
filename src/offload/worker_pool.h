// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace reprise::detail {

/// Some threads that work on a queue in order. Its end waits for what has begun and for what is
/// queued.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// REQUIRES: it throws nothing.
  void run(std::function<void()> work);

  /// Processor time of what has been done.
  double processor_ms() const;

 private:
  /// What threads share; also with one that outlives the pool, since it destroyed it itself.
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool stop = false;
    double processor_ms = 0;
  };
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::vector<std::thread> threads_;

  static void serve(Queue& queue);
};

}  // namespace reprise::detail
