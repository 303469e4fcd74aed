// SPDX-License-Identifier: BSD-3-Clause
#include "tests/plan_support.h"

#include <algorithm>
#include <stdexcept>
#include <zlib.h>

namespace reprise::tests {
namespace {

std::string read_gz(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::string text;
  char part[1 << 16];
  for (int n = 0; (n = gzread(file, part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(n));
  }
  gzclose(file);
  return text;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace

StepTrace measured_trace(const std::string& name) {
  return trace_from_json(
      read_gz(std::string(REPRISE_SOURCE_DIR) + "/tests/data/trace_" + name + ".json.gz"));
}

StepTrace random_trace(std::mt19937& random, const TraceKind& kind) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto often = [&](int percent) { return draw(1, 100) <= percent; };
  StepTrace trace;
  const int operators = draw(2, kind.operators);
  for (int i = 0; i < operators; ++i) {
    TracedOperator& op = trace.operators.emplace_back();
    op.name = "op" + std::to_string(draw(0, 3));
    op.microseconds = draw(1, 50);
    op.scratch_bytes = often(30) ? draw(1, 40) : 0;
    op.replayable = !kind.holds || !often(5);
    const auto made = static_cast<int>(trace.values.size());
    for (int r = 0; r < (kind.chain ? 1 : draw(0, 3)) && made > 0; ++r) {
      const int v = kind.chain || often(50) ? made - 1 : draw(0, made - 1);
      if (std::find(op.reads.begin(), op.reads.end(), v) == op.reads.end()) op.reads.push_back(v);
    }
    for (int r = often(15) ? 2 : 1; r > 0; --r) {
      op.makes.push_back(static_cast<int32_t>(trace.values.size()));
      trace.values.push_back({draw(1, 100), -1, -1, std::nullopt});
      if (kind.smaller_forms && often(20)) {
        trace.values.back().encoded = {trace.values.back().bytes / 8, 1.0 * draw(1, 5),
                                       1.0 * draw(1, 5)};
        trace.values.back().saved_at = draw(i, operators - 1);
      }
    }
  }
  int64_t parameters = 0;
  for (int i = operators - 1; i >= 0; --i) {
    const TracedOperator& op = trace.operators[i];
    std::vector<int32_t> saved;
    for (int32_t v : op.reads) {
      if (often(60)) saved.push_back(v);
    }
    for (int32_t v : op.makes) {
      if (often(40)) saved.push_back(v);
    }
    for (int part = often(20) ? 2 : 1; part > 0; --part) {
      BackwardEvent& event = trace.events.emplace_back();
      event.name = op.name + "_backward";
      event.microseconds = draw(1, 80);
      event.scratch_bytes = often(30) ? draw(1, 40) : 0;
      event.gradient_bytes_before = parameters + draw(0, 30);
      event.gradient_bytes = event.gradient_bytes_before + draw(0, 60);
      event.belongs_to = i;
      const bool first =
          trace.events.size() == 1 || part == 2 ||
          trace.events.back().belongs_to != trace.events[trace.events.size() - 2].belongs_to;
      (first ? event.unpacks : event.holds) = saved;
    }
    parameters += often(40) ? draw(0, 20) : 0;
  }
  if (kind.holds) {
    const auto steps = static_cast<int>(trace.operators.size() + trace.events.size());
    for (TracedValue& value : trace.values) {
      if (often(8)) value.held_until = draw(0, steps - 1);
    }
  }
  return trace;
}

void Heap::reach(int64_t beside) {
  int64_t live = beside;
  for (const auto& [v, bytes] : values) live += bytes;
  for (const auto& [v, bytes] : smaller) live += bytes;
  peak = std::max(peak, live);
}
void Heap::run(const StepTrace& trace, const std::vector<PlanStep>& steps) {
  std::size_t forwards = 0, events = 0;
  for (const PlanStep& step : steps) {
    const bool backward = forwards == trace.operators.size() && events < trace.events.size();
    const int64_t gradients = backward ? trace.events[events].gradient_bytes_before : 0;
    switch (step.kind) {
      case PlanStep::Kind::forward:
      case PlanStep::Kind::replay: {
        const TracedOperator& op = trace.operators[step.index];
        const bool first = step.kind == PlanStep::Kind::forward;
        for (int32_t v : op.reads) require(values.count(v) > 0, "an operator reads what is gone");
        int64_t lost = 0;
        for (int32_t v : op.makes) {
          const bool stays =
              first || std::find(step.leaves.begin(), step.leaves.end(), v) != step.leaves.end();
          if (!stays) lost += trace.values[v].bytes;
          if (stays) require(values.emplace(v, trace.values[v].bytes).second, "made twice");
        }
        time += op.microseconds;
        reach(op.scratch_bytes + lost + (first ? 0 : gradients));
        if (first) require(forwards++ == static_cast<std::size_t>(step.index), "order");
        break;
      }
      case PlanStep::Kind::encode:
        require(values.count(step.index) > 0, "encodes what is gone");
        smaller[step.index] = trace.values[step.index].encoded->bytes;
        time += trace.values[step.index].encoded->encode_us;
        reach(gradients);
        break;
      case PlanStep::Kind::decode:
        require(smaller.count(step.index) > 0, "decodes what is gone");
        require(values.emplace(step.index, trace.values[step.index].bytes).second, "made twice");
        time += trace.values[step.index].encoded->decode_us;
        reach(gradients);
        break;
      case PlanStep::Kind::backward: {
        const BackwardEvent& event = trace.events[step.index];
        for (int32_t v : event.unpacks) require(values.count(v) > 0, "unpacks what is gone");
        for (int32_t v : event.holds) require(values.count(v) > 0, "holds what is gone");
        time += event.microseconds;
        reach(event.gradient_bytes + event.scratch_bytes);
        require(events++ == static_cast<std::size_t>(step.index), "order");
        break;
      }
    }
    for (int32_t v : step.frees) require(values.erase(v) == 1, "frees what is gone");
    for (int32_t v : step.frees_encoded) require(smaller.erase(v) == 1, "frees what is gone");
  }
  require(values.empty() && smaller.empty(), "something is left");
  require(forwards == trace.operators.size() && events == trace.events.size(), "not all ran");
}

}  // namespace reprise::tests
