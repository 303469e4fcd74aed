// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "plan/block_options.h"
#include "plan/key.h"

namespace reprise::planner {
namespace {

/// Values of the step as values of the block; those of other blocks are left out.
class Renumbering {
 public:
  Renumbering(const Problem& problem, const Block& block) : within_(problem.values, kNone) {
    for (Index i = block.begin; i < block.end; ++i) {
      for (Index v : problem.makes[i]) {
        within_[v] = static_cast<Index>(inner_.size());
        inner_.push_back(v);
      }
    }
  }

  std::vector<Index> operator()(std::span<const Index> values) const {
    std::vector<Index> list;
    for (Index v : values) {
      if (within_[v] != kNone) list.push_back(within_[v]);
    }
    return list;
  }

  const std::vector<Index>& inner() const { return inner_; }

 private:
  std::vector<Index> within_;  // by value of the step
  std::vector<Index> inner_;   // values of the step
};

StepTrace cut_out(const Problem& problem, const Block& block) {
  const Renumbering renumber(problem, block);
  StepTrace trace;
  for (Index v : renumber.inner()) {
    TracedValue value;
    value.bytes = problem.bytes[v];
    if (problem.encoder[v] != kNone) {
      value.saved_at = std::min(problem.saved_at[v], block.end - 1) - block.begin;
      value.encoded = {problem.bytes[problem.makes[problem.encoder[v]].front()],
                       problem.time[problem.encoder[v]], problem.time[problem.decoder[v]]};
    }
    trace.values.push_back(value);
  }
  for (Index i = block.begin; i < block.end; ++i) {
    trace.operators.push_back({std::to_string(problem.kind[i]), problem.time[i], problem.scratch[i],
                               renumber(problem.reads[i]), renumber(problem.makes[i]), true});
  }
  trace.events.emplace_back().unpacks = renumber(block.outputs);
  for (Index j : block.events) {
    BackwardEvent& event = trace.events.emplace_back();
    event.microseconds = problem.event_time[j];
    event.gradient_bytes = problem.event_bytes[j];
    event.gradient_bytes_before = problem.gradients_before[j];
    event.unpacks = renumber(problem.needs[j]);
  }
  return trace;
}

std::string signature_of(StepTrace trace, const std::vector<Index>& candidates) {
  const int64_t base = trace.events.size() > 1 ? trace.events[1].gradient_bytes_before : 0;
  for (std::size_t j = 1; j < trace.events.size(); ++j) {
    trace.events[j].gradient_bytes -= base;
    trace.events[j].gradient_bytes_before -= base;
  }
  std::string signature = sizes_of(trace);
  for (Index v : candidates) signature += ' ' + std::to_string(v);
  return signature;
}

}  // namespace

BlockProblem::BlockProblem(const Problem& problem, const Block& block)
    : first_operator_(block.begin),
      inner_(compile(cut_out(problem, block))),
      candidates_(Renumbering(problem, block)(block.candidates)),
      simulator_(inner_),
      present_(inner_.all_values()),
      marked_(inner_.all_operators(), 0) {
  signature_ = signature_of(cut_out(problem, block), candidates_);
  if (inner_.events > 1) gradient_ = inner_.gradients_before[1];
}

bool BlockProblem::can_encode(uint32_t kept) const {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if ((kept >> i & 1U) != 0 && inner_.encoder[candidates_[i]] != kNone) return true;
  }
  return false;
}

void BlockProblem::set_labels(const Choice& choice) {
  labels_.assign(inner_.values, Label::keep);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Index v = candidates_[i];
    if ((choice.kept >> i & 1U) == 0) {
      labels_[v] = Label::retain;
    } else if (choice.encodes && inner_.encoder[v] != kNone) {
      labels_[v] = Label::encode;
    }
  }
}

// Marks what must run for a value that is not there.
void BlockProblem::mark(Index value) {
  if (present_[value]) return;
  const bool decodes = labels_[value] == Label::encode && !steps_.empty();
  const Index op = decodes ? inner_.decoder[value] : inner_.producer[value];
  if (marked_[op]) return;
  marked_[op] = 1;
  stack_.push_back(op);
}

void BlockProblem::mark_inputs() {
  while (!stack_.empty()) {
    const Index op = stack_.back();
    stack_.pop_back();
    if (op >= inner_.operators) continue;  // its smaller form is always there
    for (Index v : inner_.reads[op]) mark(v);
  }
}

// The marked operators in their order, with their encodings; their time.
double BlockProblem::append_forward() {
  double time = 0;
  for (Index i = 0; i < inner_.operators; ++i) {
    if (marked_[i]) {
      steps_.push_back({i, kAll});
      time += inner_.time[i];
    }
    for (Index v : inner_.encode_after[i]) {
      if (labels_[v] != Label::encode || !marked_[inner_.producer[v]]) continue;
      steps_.push_back({inner_.encoder[v], kAll});
      time += inner_.time[inner_.encoder[v]];
    }
  }
  return time;
}

void BlockProblem::append_backward() {
  for (Index j = 1; j < inner_.events; ++j) {
    for (Index v : inner_.needs[j]) mark(v);
    const bool replays = !stack_.empty();
    mark_inputs();
    if (replays) {
      const std::size_t begin = steps_.size();
      for (Index op = 0; op < inner_.all_operators(); ++op) {
        if (!marked_[op]) continue;
        marked_[op] = 0;
        Mask leaves = 0;
        std::size_t result = 0;
        for (Index v : inner_.makes[op]) {
          if (!present_[v]) leaves |= bit(result);
          present_[v] = 1;
          ++result;
        }
        steps_.push_back({op, leaves});
      }
      if (inner_.all_operators() > inner_.operators) {
        std::sort(
            steps_.begin() + static_cast<std::ptrdiff_t>(begin), steps_.end(),
            [&](const Step& a, const Step& b) { return inner_.rank[a.op] < inner_.rank[b.op]; });
      }
    }
    steps_.push_back(event_step(j));
  }
}

BlockOption BlockProblem::simulate(const Choice& choice, bool at_once) {
  set_labels(choice);
  steps_.clear();
  std::fill(present_.begin(), present_.end(), 0);
  for (Index v = 0; v < inner_.values; ++v) {
    const std::span<const Index> events = inner_.needed_at[v];
    const bool saved = !events.empty() && events.back() > 0;
    // What is to be decoded was encoded, saved or not.
    if (labels_[v] == Label::encode || (labels_[v] == Label::keep && saved)) mark(v);
  }
  if (!at_once) {
    for (Index v : inner_.needs[0]) mark(v);
  }
  mark_inputs();
  BlockOption option;
  option.time = append_forward();
  const std::size_t forward = steps_.size();
  for (Index v = 0; v < inner_.values; ++v) {
    present_[v] = labels_[v] == Label::keep && marked_[inner_.producer[v]];
  }
  std::fill(marked_.begin(), marked_.end(), 0);
  if (!at_once) steps_.push_back(event_step(0));
  append_backward();

  Outcome outcome;
  if (!simulator_.run(steps_, outcome, &curve_)) {
    throw Error("a block of the step has a schedule that reads what is not there",
                "this is a fault of the planner: report it with the step trace");
  }
  std::size_t p = 0;
  for (; p < forward; ++p) option.forward = std::max(option.forward, curve_[p]);
  if (at_once) {  // replays before the first event find the gradients, too
    for (; p < steps_.size() && !steps_[p].is_event(); ++p) curve_[p] += gradient_;
    p = forward;
  } else {
    option.kept = curve_[p++];
  }
  for (; p < steps_.size(); ++p) option.backward = std::max(option.backward, curve_[p]);
  for (std::size_t k = forward; k < steps_.size(); ++k) {
    const Step& step = steps_[k];
    option.time += step.is_event() ? inner_.event_time[step.event()] : inner_.time[step.op];
  }
  return option;
}

std::vector<Index> BlockProblem::bare_run(BlockOption& cost) {
  set_labels({});
  steps_.clear();
  std::fill(present_.begin(), present_.end(), 0);
  for (Index v : inner_.needs[0]) mark(v);
  mark_inputs();
  std::vector<Index> operators;
  for (Index i = 0; i < inner_.operators; ++i) {
    if (marked_[i]) operators.push_back(first_operator_ + i);
  }
  cost = {};
  cost.time = append_forward();
  std::fill(marked_.begin(), marked_.end(), 0);
  const std::size_t forward = steps_.size();
  steps_.push_back(event_step(0));
  Outcome outcome;
  simulator_.run(steps_, outcome, &curve_);
  for (std::size_t p = 0; p < forward; ++p) cost.forward = std::max(cost.forward, curve_[p]);
  return operators;
}

}  // namespace reprise::planner
