// SPDX-License-Identifier: BSD-3-Clause
#include "plan/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/stop.h"

namespace reprise::planner {
namespace {

constexpr Index kColumns = 2;
constexpr float kNever = std::numeric_limits<float>::infinity();
// Loops of a fixed length over what cannot overlap: compilers make vector code of them.
constexpr int kLane = 16;

void lower(float* target, const float (&times)[kLane]) {
  for (int k = 0; k < kLane; ++k) target[k] = times[k] < target[k] ? times[k] : target[k];
}

// target[i] = min(target[i], a[i] + more)
void relax(float* target, const float* a, float more, int count) {
  int i = 0;
  for (; i + kLane <= count; i += kLane) {
    float times[kLane];
    for (int k = 0; k < kLane; ++k) times[k] = a[i + k] + more;
    lower(target + i, times);
  }
  for (; i < count; ++i) target[i] = std::min(target[i], a[i] + more);
}

// target[i] = min(target[i], a[i] + b[i] + more)
void relax(float* target, const float* a, const float* b, float more, int count) {
  int i = 0;
  for (; i + kLane <= count; i += kLane) {
    float times[kLane];
    for (int k = 0; k < kLane; ++k) times[k] = a[i + k] + b[i + k] + more;
    lower(target + i, times);
  }
  for (; i < count; ++i) target[i] = std::min(target[i], a[i] + b[i] + more);
}

// How far a way may still be faster than what is known, from the first slot on: rows never rise
// with the slots, and no entry of the way's is below its last.
int still_open(const float* target, float last, int count) {
  return static_cast<int>(
      std::partition_point(target, target + count, [last](float known) { return known > last; }) -
      target);
}

}  // namespace

ChainProgramme::ChainProgramme(const Chain& chain, int64_t budget, int slots, int most,
                               const std::stop_token& stop)
    : chain_(chain),
      slots_per_byte_(static_cast<double>(slots) / static_cast<double>(budget)),
      most_(most) {
  bare_time_.assign(1, 0.0);
  double total = 0;
  for (const ChainBlock& block : chain.blocks) {
    bare_time_.push_back(bare_time_.back() + block.bare_time);
    total += block.bare_time;
  }
  tie_ = total * 1e-6;
  table_.assign(offset(blocks(), blocks()), kNever);
  first_finite_.assign(table_.size() / static_cast<std::size_t>(most_ + 1), 0);
  // Some columns at a time, from their end: of both the rows of one t and those of one s, most are
  // in the cache still when they are read again.
  for (Index begin = 0; begin < blocks(); begin += kColumns) {
    leave_if_stopped(stop);
    const Index end = std::min(begin + kColumns, blocks());
    for (Index s = end - 1; s >= 0; --s) {
      for (Index t = std::max(s, begin); t < end; ++t) {
        fill_row(s, t);
        const float* filled = row(s, t);
        first_finite(s, t) = static_cast<int>(
            std::find_if(filled, filled + most_ + 1, [](float x) { return x < kNever; }) - filled);
      }
    }
  }
}

int& ChainProgramme::first_finite(Index s, Index t) {
  return first_finite_[offset(s, t) / static_cast<std::size_t>(most_ + 1)];
}

std::size_t ChainProgramme::offset(Index s, Index t) const {
  const auto n = static_cast<std::size_t>(blocks());
  const auto row = static_cast<std::size_t>(s);
  const std::size_t before = row * n - row * (row - 1) / 2;  // rows of smaller s
  return (before + static_cast<std::size_t>(t - s)) * static_cast<std::size_t>(most_ + 1);
}

// More than there are stands for any number that cannot be had.
int ChainProgramme::slots_for(int64_t bytes) const {
  const double slots = std::min(static_cast<double>(bytes) * slots_per_byte_ - 1e-9, most_ + 1.0);
  const int whole = static_cast<int>(slots);
  return static_cast<double>(whole) < slots ? whole + 1
                                            : whole;  // std::ceil() is slow without SSE4
}

std::vector<ChainProgramme::Rounded> ChainProgramme::rounded(
    const std::vector<BlockOption>& options, int64_t gradient) const {
  std::vector<Rounded> all;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const BlockOption& option = options[i];
    const int least = slots_for(std::max(gradient + option.forward, option.backward));
    all.push_back(
        {static_cast<float>(option.time), slots_for(option.kept), least, static_cast<Index>(i)});
  }
  return all;
}

void ChainProgramme::fill_row(Index s, Index t) {
  float* target = row(s, t);
  const int64_t gradient = chain_.blocks[t].gradient;
  const int end = most_ + 1;
  if (s == t) {
    for (const Rounded& option : rounded(chain_.blocks[s].last, gradient)) {
      for (int m = option.least; m < end; ++m) target[m] = std::min(target[m], option.time);
    }
    return;
  }
  for (const Rounded& option : rounded(chain_.blocks[s].options, gradient)) {
    const int least = std::max(option.least, option.kept + first_finite(s + 1, t));
    if (least >= end) continue;
    const float* behind = row(s + 1, t) + (least - option.kept);
    const float last = behind[end - 1 - least] + option.time;
    relax(target + least, behind, option.time, still_open(target + least, last, end - least));
  }
  int64_t peak = 0;  // of the bare runs of s .. j-1
  for (Index j = s + 1; j <= t; ++j) {
    const int64_t begins_with = j - 1 > s ? chain_.checkpoint[s][j - 1 - s] : 0;
    peak = std::max(peak, begins_with + chain_.blocks[j - 1].bare);
    const int kept = slots_for(chain_.checkpoint[s][j - s]);
    const int bare = slots_for(gradient + peak);
    if (bare >= end) break;  // peaks only grow
    const int least = std::max({bare, kept + first_finite(j, t), first_finite(s, j - 1)});
    if (least >= end) continue;
    const float* behind = row(j, t) + (least - kept);
    const float* again = row(s, j - 1) + least;
    const float more = bare_between(s, j);
    const float last = behind[end - 1 - least] + again[end - 1 - least] + more;
    relax(target + least, behind, again, more, still_open(target + least, last, end - least));
  }
}

std::vector<ChainStep> ChainProgramme::plan(int slots) const {
  std::vector<ChainStep> steps;
  append(0, blocks() - 1, slots, steps);
  return steps;
}

// Finds again what fill_row() has found; to keep comes before to run again.
void ChainProgramme::append(Index s, Index t, int slots, std::vector<ChainStep>& steps) const {
  using Kind = ChainStep::Kind;
  const int64_t gradient = chain_.blocks[t].gradient;
  double best = std::numeric_limits<double>::infinity();
  Index best_option = kNone, best_checkpoint = kNone;
  if (s == t) {
    for (const Rounded& option : rounded(chain_.blocks[s].last, gradient)) {
      if (slots >= option.least && option.time < best) {
        best = option.time;
        best_option = option.option;
      }
    }
    steps.push_back({Kind::forward, s, best_option, true});
    steps.push_back({Kind::backward, s, best_option, true});
    return;
  }
  int best_kept = 0;
  for (const Rounded& option : rounded(chain_.blocks[s].options, gradient)) {
    if (slots < std::max(option.least, option.kept)) continue;
    const double time = double{option.time} + row(s + 1, t)[slots - option.kept];
    if (time < best) {
      best = time;
      best_option = option.option;
      best_kept = option.kept;
    }
  }
  int64_t peak = 0;
  for (Index j = s + 1; j <= t; ++j) {
    const int64_t begins_with = j - 1 > s ? chain_.checkpoint[s][j - 1 - s] : 0;
    peak = std::max(peak, begins_with + chain_.blocks[j - 1].bare);
    const int kept = slots_for(chain_.checkpoint[s][j - s]);
    if (slots < std::max(slots_for(gradient + peak), kept)) continue;
    const double time = double{row(j, t)[slots - kept]} + row(s, j - 1)[slots] + bare_between(s, j);
    if (time < best - tie_) {
      best = time;
      best_checkpoint = j;
      best_kept = kept;
    }
  }
  if (best_checkpoint == kNone) {
    steps.push_back({Kind::forward, s, best_option, false});
    append(s + 1, t, slots - best_kept, steps);
    steps.push_back({Kind::backward, s, best_option, false});
  } else {
    for (Index k = s; k < best_checkpoint; ++k) steps.push_back({Kind::bare, k, kNone, false});
    append(best_checkpoint, t, slots - best_kept, steps);
    append(s, best_checkpoint - 1, slots, steps);
  }
}

}  // namespace reprise::planner
