// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <string>

#include <reprise/plan.h>

// What a trace must be.

namespace reprise {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 48;  // so that sums stay in range

class Checker {
 public:
  explicit Checker(const StepTrace& trace)
      : trace_(trace), maker_(trace.values.size(), 0), seen_(trace.values.size(), 0) {}

  void run() {
    for (std::size_t i = 0; i < trace_.operators.size(); ++i) {
      check(trace_.operators[i], "operator " + std::to_string(i));
    }
    for (std::size_t v = 0; v < trace_.values.size(); ++v) {
      check(trace_.values[v], "value " + std::to_string(v));
      if (maker_[v] == 0) fail("value " + std::to_string(v) + " is made by no operator");
    }
    for (std::size_t j = 0; j < trace_.events.size(); ++j) {
      check(trace_.events[j], "backward event " + std::to_string(j));
    }
    if (trace_.store) check(*trace_.store);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw UsageError("a broken step trace: " + what, "record the step again");
  }

  static void check_amount(double amount, const std::string& where, const char* of) {
    if (!(amount >= 0) || !std::isfinite(amount)) {
      fail(where + " has " + of + " of " + std::to_string(amount));
    }
  }

  static void check_bytes(int64_t bytes, const std::string& where, const char* of) {
    if (bytes < 0 || bytes > kMostBytes)
      fail(where + " has " + of + " of " + std::to_string(bytes));
  }

  void check_indices(const std::vector<int32_t>& indices, const std::string& where) {
    ++round_;
    for (int32_t v : indices) {
      if (v < 0 || static_cast<std::size_t>(v) >= trace_.values.size()) {
        fail(where + " names value " + std::to_string(v) + " of " +
             std::to_string(trace_.values.size()));
      }
      if (seen_[v] == round_) fail(where + " names value " + std::to_string(v) + " twice");
      seen_[v] = round_;
    }
  }

  void check(const TracedOperator& op, const std::string& where) {
    check_amount(op.microseconds, where, "microseconds");
    check_bytes(op.scratch_bytes, where, "scratch bytes");
    check_indices(op.reads, where);
    for (int32_t v : op.reads) {
      if (maker_[v] == 0) fail(where + " reads value " + std::to_string(v) + " before it is made");
    }
    check_indices(op.makes, where);
    for (int32_t v : op.makes) {
      if (maker_[v] != 0) fail("value " + std::to_string(v) + " is made twice");
      maker_[v] = &op - trace_.operators.data() + 1;
    }
  }

  void check(const TracedValue& value, const std::string& where) {
    check_bytes(value.bytes, where, "bytes");
    const auto operators = static_cast<int64_t>(trace_.operators.size());
    const auto events = static_cast<int64_t>(trace_.events.size());
    if (value.held_until < -1 || value.held_until >= operators + events) {
      fail(where + " is held until " + std::to_string(value.held_until) + ", beyond the step");
    }
    if (value.saved_at < -1 || value.saved_at >= operators) {
      fail(where + " is saved at operator " + std::to_string(value.saved_at) + " of " +
           std::to_string(operators));
    }
    if (value.encoded) {
      check_bytes(value.encoded->bytes, where, "encoded bytes");
      check_amount(value.encoded->encode_us, where, "encoding microseconds");
      check_amount(value.encoded->decode_us, where, "decoding microseconds");
    }
    const auto v = static_cast<std::size_t>(&value - trace_.values.data());
    if (value.saved_at >= 0 && value.saved_at + 1 < maker_[v]) {
      fail(where + " is saved before it is made");
    }
  }

  void check(const BackwardEvent& event, const std::string& where) {
    check_amount(event.microseconds, where, "microseconds");
    check_bytes(event.scratch_bytes, where, "scratch bytes");
    check_bytes(event.gradient_bytes, where, "gradient bytes");
    check_bytes(event.gradient_bytes_before, where, "gradient bytes before");
    if (event.belongs_to < -1 ||
        event.belongs_to >= static_cast<int64_t>(trace_.operators.size())) {
      fail(where + " belongs to operator " + std::to_string(event.belongs_to) + " of " +
           std::to_string(trace_.operators.size()));
    }
    check_indices(event.unpacks, where);
    check_indices(event.holds, where);
  }

  static void check(const TracedStore& store) {
    for (double rate : {store.send_bytes_per_us, store.fetch_bytes_per_us}) {
      check_amount(rate, "the store", "bytes per microsecond");
      if (rate == 0) fail("the store has a rate of 0");
    }
    check_amount(store.latency_us, "the store", "latency in microseconds");
    check_amount(store.work_us_per_byte, "the store", "work in microseconds per byte");
    check_bytes(store.least_bytes, "the store", "least bytes");
  }

  const StepTrace& trace_;
  std::vector<int64_t> maker_;  // counted from 1; 0 is none
  std::vector<int64_t> seen_;
  int64_t round_ = 0;
};

}  // namespace

void check_trace(const StepTrace& trace) { Checker(trace).run(); }

}  // namespace reprise
