// SPDX-License-Identifier: BSD-3-Clause
#include "tests/plan_support.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
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

TracedStore random_store(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const double speed = std::ldexp(1.0, draw(-3, 5));
  return {speed * draw(2, 5), speed * draw(2, 5), draw(0, 1) * 0.5 * draw(0, 9),
          draw(0, 3) == 0 ? draw(1, 40) : 0, draw(0, 1) * draw(1, 8) / 64.0};
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

Heap::Block::Block(Heap& heap, int64_t bytes)
    : heap_(&heap), bytes_(bytes), memory_(std::malloc(static_cast<std::size_t>(bytes) + 1)) {
  require(memory_ != nullptr, "out of memory");
  heap.live_ += bytes;
  heap.peak = std::max(heap.peak, heap.live_);
}

Heap::Block::~Block() {
  if (memory_ == nullptr) return;
  std::free(memory_);
  heap_->live_ -= bytes_;
}

const Heap::Value& Heap::read(int32_t v) {
  const auto found = values_.find(v);
  require(found != values_.end(), "something reads what is gone");
  require(found->second.contents == first_[v], "something reads what it should not be");
  const auto arrives = arrives_.find(v);
  if (arrives != arrives_.end()) time = std::max(time, arrives->second);
  return found->second;
}

void Heap::send(const StepTrace& trace, int32_t v) {
  require(trace.store.has_value(), "sends, and there is no store");
  require(copies_.count(v) == 0, "sent twice");
  const TracedStore& store = *trace.store;
  const auto bytes = static_cast<double>(trace.values[v].bytes);
  time += bytes * store.work_us_per_byte;
  queue_ = std::max(time, queue_) + (store.latency_us + bytes / store.send_bytes_per_us);
  copies_[v] = {read(v).contents, queue_, false};
}

void Heap::fetch(const StepTrace& trace, int32_t v) {
  require(copies_.count(v) == 1, "fetches what was not sent");
  require(values_.count(v) == 0, "fetched beside itself");
  const TracedStore& store = *trace.store;
  const auto bytes = static_cast<double>(trace.values[v].bytes);
  time += bytes * store.work_us_per_byte;
  queue_ = std::max(time, queue_) + (store.latency_us + bytes / store.fetch_bytes_per_us);
  values_.emplace(v, Value{Block(*this, trace.values[v].bytes), copies_.at(v).contents});
  arrives_[v] = queue_;
  copies_.at(v).is_used = true;
}

void Heap::free(int32_t v) {
  require(values_.erase(v) == 1, "frees what is gone");
  const auto arrives = arrives_.find(v);
  if (arrives != arrives_.end()) {
    time = std::max(time, arrives->second);
    arrives_.erase(arrives);
  } else if (copies_.count(v) > 0 && !copies_.at(v).is_used) {
    time = std::max(time, copies_.at(v).done);
  }
}

void Heap::run_operator(const StepTrace& trace, const PlanStep& step, int64_t gradients) {
  const TracedOperator& op = trace.operators[step.index];
  const bool first = step.kind == PlanStep::Kind::forward;
  uint64_t contents = 0x9E3779B97F4A7C15U * static_cast<uint64_t>(step.index + 1);
  for (int32_t v : op.reads) contents = contents * 31 + read(v).contents;
  const Block beside(*this, gradients), scratch(*this, op.scratch_bytes);
  std::vector<Block> lost;
  for (int32_t v : op.makes) {
    contents = contents * 31 + 1;
    const bool stays =
        first || std::find(step.leaves.begin(), step.leaves.end(), v) != step.leaves.end();
    if (!stays) {
      lost.emplace_back(*this, trace.values[v].bytes);
      continue;
    }
    require(values_.count(v) == 0, "made twice");
    values_.emplace(v, Value{Block(*this, trace.values[v].bytes), contents});
    if (first) first_[v] = contents;
  }
  time += op.microseconds;
}

void Heap::run(const StepTrace& trace, const std::vector<PlanStep>& steps) {
  first_.assign(trace.values.size(), 0);
  std::size_t forwards = 0, events = 0;
  for (const PlanStep& step : steps) {
    const bool backward = forwards == trace.operators.size() && events < trace.events.size();
    const int64_t gradients = backward ? trace.events[events].gradient_bytes_before : 0;
    switch (step.kind) {
      case PlanStep::Kind::forward:
        require(forwards++ == static_cast<std::size_t>(step.index), "order");
        run_operator(trace, step, 0);
        break;
      case PlanStep::Kind::replay:
        run_operator(trace, step, gradients);
        break;
      case PlanStep::Kind::encode: {
        const Block beside(*this, gradients);
        const EncodedForm& form = *trace.values[step.index].encoded;
        smaller_.emplace(step.index, Value{Block(*this, form.bytes), read(step.index).contents});
        time += form.encode_us;
        break;
      }
      case PlanStep::Kind::decode: {
        const Block beside(*this, gradients);
        require(smaller_.count(step.index) > 0, "decodes what is gone");
        require(values_.count(step.index) == 0, "made twice");
        const TracedValue& value = trace.values[step.index];
        values_.emplace(step.index,
                        Value{Block(*this, value.bytes), smaller_.at(step.index).contents});
        time += value.encoded->decode_us;
        break;
      }
      case PlanStep::Kind::backward: {
        require(events++ == static_cast<std::size_t>(step.index), "order");
        const BackwardEvent& event = trace.events[step.index];
        for (int32_t v : event.unpacks) read(v);
        for (int32_t v : event.holds) read(v);
        const Block beside(*this, event.gradient_bytes), scratch(*this, event.scratch_bytes);
        time += event.microseconds;
        break;
      }
      case PlanStep::Kind::send:
        send(trace, step.index);
        break;
      case PlanStep::Kind::fetch: {
        const Block beside(*this, gradients);
        fetch(trace, step.index);
        break;
      }
    }
    for (int32_t v : step.frees) free(v);
    for (int32_t v : step.frees_encoded) require(smaller_.erase(v) == 1, "frees what is gone");
  }
  require(values_.empty() && smaller_.empty() && live_ == 0, "something is left");
  require(forwards == trace.operators.size() && events == trace.events.size(), "not all ran");
  for (const auto& [v, copy] : copies_) require(copy.is_used, "sent for nothing");
}

}  // namespace reprise::tests
