// SPDX-License-Identifier: BSD-3-Clause
#include "plan/batch.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace reprise::planner {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 48;  // as check_trace() has it
constexpr int64_t kMostBatch = (int64_t{1} << 31) - 1;

void require(bool holds, const std::string& what) {
  if (!holds) throw UsageError(what, "trace the same model and mode with two batches");
}

void require_equal(const std::string& what, std::size_t index, bool equal) {
  require(equal, "the two batches run different steps: " + what + " " + std::to_string(index) +
                     " differs");
}

/// Numbers at a batch, each on the line through its two measured ones.
class Lines {
 public:
  Lines(int64_t a, int64_t b, int64_t batch) : steps_(batch - a), width_(b - a) {
    if (width_ < 0) {
      steps_ = -steps_;
      width_ = -width_;
    }
  }

  /// Exact, rounded up, never below 0.
  int64_t bytes(int64_t at_a, int64_t at_b) {
    const int64_t rise = at_b - at_a;
    int64_t whole = rise / width_, rest = rise % width_;
    if (rest < 0) {
      rest += width_;
      --whole;
    }
    const double about = static_cast<double>(at_a) + static_cast<double>(rise) *
                                                         static_cast<double>(steps_) /
                                                         static_cast<double>(width_);
    if (about < -1e6) return 0;
    if (about > static_cast<double>(kMostBytes)) {
      too_large_ = true;
      return 0;
    }
    const int64_t part = rest * steps_;  // both below 2^31
    const int64_t rounded_up = part / width_ + (part % width_ > 0 ? 1 : 0);
    return std::clamp<int64_t>(at_a + whole * steps_ + rounded_up, 0, kMostBytes);
  }

  double time(double at_a, double at_b) const {
    const double rise = (at_b - at_a) * static_cast<double>(steps_);
    return std::max(0.0, at_a + rise / static_cast<double>(width_));
  }

  bool too_large() const { return too_large_; }

 private:
  int64_t steps_;  // from the first batch, in the direction of the second
  int64_t width_;
  bool too_large_ = false;
};

TracedValue between(Lines& lines, const TracedValue& a, const TracedValue& b) {
  TracedValue value;
  value.bytes = lines.bytes(a.bytes, b.bytes);
  value.held_until = std::max(a.held_until, b.held_until);
  value.saved_at = std::max(a.saved_at, b.saved_at);
  if (a.encoded && b.encoded) {
    value.encoded = {lines.bytes(a.encoded->bytes, b.encoded->bytes),
                     lines.time(a.encoded->encode_us, b.encoded->encode_us),
                     lines.time(a.encoded->decode_us, b.encoded->decode_us)};
  }
  return value;
}

TracedOperator between(Lines& lines, const TracedOperator& a, const TracedOperator& b) {
  TracedOperator op = a;
  op.microseconds = lines.time(a.microseconds, b.microseconds);
  op.scratch_bytes = lines.bytes(a.scratch_bytes, b.scratch_bytes);
  op.replayable = a.replayable && b.replayable;
  return op;
}

BackwardEvent between(Lines& lines, const BackwardEvent& a, const BackwardEvent& b) {
  BackwardEvent event = a;
  event.microseconds = lines.time(a.microseconds, b.microseconds);
  event.scratch_bytes = lines.bytes(a.scratch_bytes, b.scratch_bytes);
  event.gradient_bytes = lines.bytes(a.gradient_bytes, b.gradient_bytes);
  event.gradient_bytes_before = lines.bytes(a.gradient_bytes_before, b.gradient_bytes_before);
  for (int32_t v : b.holds) {
    if (std::find(a.holds.begin(), a.holds.end(), v) == a.holds.end()) event.holds.push_back(v);
  }
  return event;
}

// The rates do not change with the batch; two measurements of them may differ.
TracedStore slower(const TracedStore& a, const TracedStore& b) {
  return {std::min(a.send_bytes_per_us, b.send_bytes_per_us),
          std::min(a.fetch_bytes_per_us, b.fetch_bytes_per_us),
          std::max(a.latency_us, b.latency_us), std::max(a.least_bytes, b.least_bytes),
          std::max(a.work_us_per_byte, b.work_us_per_byte)};
}

}  // namespace

void require_batch(int64_t batch) {
  require(batch >= 1 && batch <= kMostBatch,
          "a batch of " + std::to_string(batch) + " is none of 1 to " + std::to_string(kMostBatch));
}

void check_batches(const TracedBatch& a, const TracedBatch& b) {
  require_batch(a.batch);
  require_batch(b.batch);
  require(a.batch != b.batch,
          "two batches of " + std::to_string(a.batch) + " say nothing about others");
  require(std::min(a.base_bytes, b.base_bytes) >= 0 &&
              std::max(a.base_bytes, b.base_bytes) <= kMostBytes,
          "base bytes of " + std::to_string(a.base_bytes) + " and " + std::to_string(b.base_bytes));
  check_trace(a.trace);
  check_trace(b.trace);
  const auto require_count = [](const char* of, std::size_t in_a, std::size_t in_b) {
    require(in_a == in_b, "the two batches run different steps: " + std::to_string(in_a) + " and " +
                              std::to_string(in_b) + " " + of);
  };
  require_count("operators", a.trace.operators.size(), b.trace.operators.size());
  require_count("values", a.trace.values.size(), b.trace.values.size());
  require_count("backward events", a.trace.events.size(), b.trace.events.size());
  for (std::size_t i = 0; i < a.trace.operators.size(); ++i) {
    const TracedOperator &x = a.trace.operators[i], &y = b.trace.operators[i];
    require_equal("operator", i, x.name == y.name && x.reads == y.reads && x.makes == y.makes);
  }
  for (std::size_t j = 0; j < a.trace.events.size(); ++j) {
    const BackwardEvent &x = a.trace.events[j], &y = b.trace.events[j];
    require_equal("backward event", j, x.name == y.name && x.unpacks == y.unpacks);
  }
}

std::optional<TracedBatch> scaled(const TracedBatch& a, const TracedBatch& b, int64_t batch) {
  Lines lines(a.batch, b.batch, batch);
  TracedBatch result;
  result.batch = batch;
  result.base_bytes = lines.bytes(a.base_bytes, b.base_bytes);
  const auto scale = [&](auto& into, const auto& from_a, const auto& from_b) {
    into.reserve(from_a.size());
    for (std::size_t i = 0; i < from_a.size(); ++i) {
      into.push_back(between(lines, from_a[i], from_b[i]));
    }
  };
  scale(result.trace.values, a.trace.values, b.trace.values);
  scale(result.trace.operators, a.trace.operators, b.trace.operators);
  scale(result.trace.events, a.trace.events, b.trace.events);
  if (a.trace.store && b.trace.store) result.trace.store = slower(*a.trace.store, *b.trace.store);
  if (lines.too_large()) return std::nullopt;
  return result;
}

}  // namespace reprise::planner

namespace reprise {

TracedBatch scale_batch(const TracedBatch& a, const TracedBatch& b, int64_t batch) {
  planner::check_batches(a, b);
  planner::require_batch(batch);
  std::optional<TracedBatch> result = planner::scaled(a, b, batch);
  if (!result) {
    throw UsageError("a batch of " + std::to_string(batch) + " would need more than 256 TiB",
                     "ask for a smaller batch");
  }
  return std::move(*result);
}

}  // namespace reprise
