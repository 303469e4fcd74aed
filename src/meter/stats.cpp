// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>

#include <reprise/stats.h>

#include "meter/replay_clock.h"

namespace reprise {
namespace {

// Since the start of the process; a counter remembers where they stood when it began.
std::atomic<int64_t> regions{0};
std::atomic<int64_t> replays{0};
std::atomic<int64_t> operators{0};
std::atomic<int64_t> nanoseconds{0};

std::atomic<int64_t> replay_numbers{0};

thread_local int replay_depth = 0;
thread_local int64_t replay_number = 0;

ReplayStats now() { return {regions, replays, operators, static_cast<double>(nanoseconds) * 1e-6}; }

}  // namespace

namespace detail {

void count_region() { ++regions; }

bool is_replaying() { return replay_depth > 0; }

int64_t current_replay() { return replay_number; }

ReplayClock::ReplayClock() {
  if (replay_depth++ == 0) replay_number = ++replay_numbers;
}

ReplayClock::~ReplayClock() {
  ++replays;
  if (--replay_depth > 0) return;
  replay_number = 0;
  operators += operators_;
  nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(
                     std::chrono::steady_clock::now() - start_)
                     .count();
}

}  // namespace detail

ReplayCounter::ReplayCounter() : start_(now()) {}

ReplayStats ReplayCounter::stats() const {
  const ReplayStats end = now();
  return {end.regions - start_.regions, end.replays - start_.replays,
          end.operators - start_.operators, end.milliseconds - start_.milliseconds};
}

}  // namespace reprise
