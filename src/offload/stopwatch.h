// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <ctime>
#include <mutex>

namespace reprise::detail {

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// What the calling thread has had of the processor, in the system too.
inline double processor_ms_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

/// Time during which at least one of several things was going on. Not thread-safe.
class BusyTime {
 public:
  void begin() {
    if (count_++ == 0) watch_ = Stopwatch();
  }
  void end() {
    if (--count_ == 0) ms_ += watch_.ms();
  }
  double ms() const { return ms_ + (count_ > 0 ? watch_.ms() : 0); }

 private:
  int count_ = 0;
  Stopwatch watch_;
  double ms_ = 0;
};

/// Adds how long it lives to a sum that a mutex guards.
class WaitClock {
 public:
  WaitClock(std::mutex& mutex, double& sum) : mutex_(mutex), sum_(sum) {}
  ~WaitClock() {
    const double ms = watch_.ms();
    const std::lock_guard lock(mutex_);
    sum_ += ms;
  }
  WaitClock(const WaitClock&) = delete;
  WaitClock& operator=(const WaitClock&) = delete;

 private:
  std::mutex& mutex_;
  double& sum_;
  const Stopwatch watch_;
};

}  // namespace reprise::detail
