// SPDX-License-Identifier: BSD-3-Clause
#include "plan/key.h"

#include <bit>
#include <cstdio>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace reprise {
namespace {

class Text {
 public:
  void add(int64_t number) { text_ += std::to_string(number) + ' '; }
  void add(double time) { add(std::bit_cast<int64_t>(time)); }
  void add(const std::vector<int32_t>& indices) {
    add(static_cast<int64_t>(indices.size()));
    for (int32_t i : indices) add(int64_t{i});
  }
  void add(const std::string& name) {
    add(static_cast<int64_t>(name.size()));
    text_ += name;
  }

  std::string digits() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx",
                  static_cast<unsigned long long>(XXH3_64bits(text_.data(), text_.size())));
    return digits;
  }

 private:
  std::string text_;
};

void add_structure(const StepTrace& trace, Text& text) {
  text.add(static_cast<int64_t>(trace.operators.size()));
  for (const TracedOperator& op : trace.operators) {
    text.add(op.name);
    text.add(op.reads);
    text.add(op.makes);
  }
  text.add(static_cast<int64_t>(trace.events.size()));
  for (const BackwardEvent& event : trace.events) {
    text.add(event.name);
    text.add(event.unpacks);
  }
}

void add_bytes(const StepTrace& trace, Text& text) {
  for (const TracedValue& value : trace.values) text.add(value.bytes);
}

// What may differ from one measurement of a step to the next.
void add_measured(const StepTrace& trace, Text& text) {
  for (const TracedValue& value : trace.values) {
    text.add(int64_t{value.held_until});
    text.add(int64_t{value.saved_at});
    text.add(value.encoded ? value.encoded->bytes : -1);
  }
  for (const TracedOperator& op : trace.operators) {
    text.add(op.scratch_bytes);
    text.add(int64_t{op.replayable});
  }
  for (const BackwardEvent& event : trace.events) {
    text.add(event.scratch_bytes);
    text.add(event.gradient_bytes);
    text.add(event.gradient_bytes_before);
    text.add(int64_t{event.belongs_to});
    text.add(event.holds);
  }
}

void add_times(const StepTrace& trace, Text& text) {
  for (const TracedValue& value : trace.values) {
    if (!value.encoded) continue;
    text.add(value.encoded->encode_us);
    text.add(value.encoded->decode_us);
  }
  for (const TracedOperator& op : trace.operators) text.add(op.microseconds);
  for (const BackwardEvent& event : trace.events) text.add(event.microseconds);
  if (!trace.store) return;
  text.add(trace.store->send_bytes_per_us);
  text.add(trace.store->fetch_bytes_per_us);
  text.add(trace.store->latency_us);
  text.add(trace.store->least_bytes);
  text.add(trace.store->work_us_per_byte);
}

}  // namespace

std::string key_of(const StepTrace& trace) {
  Text text;
  add_structure(trace, text);
  add_bytes(trace, text);
  return text.digits();
}

namespace planner {

std::string sizes_of(const StepTrace& trace) {
  Text text;
  add_structure(trace, text);
  add_bytes(trace, text);
  add_measured(trace, text);
  return text.digits();
}

std::string measurement_of(const StepTrace& trace) {
  Text text;
  add_structure(trace, text);
  add_bytes(trace, text);
  add_measured(trace, text);
  add_times(trace, text);
  return text.digits();
}

}  // namespace planner
}  // namespace reprise
