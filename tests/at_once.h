// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

namespace reprise::testing {

/// Runs work(0), work(1), … on as many threads, which all begin at once; returns when all are done.
inline void at_once(int threads, const std::function<void(int)>& work) {
  std::barrier start(threads);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      start.arrive_and_wait();
      work(i);
    });
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace reprise::testing
