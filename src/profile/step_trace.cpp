// SPDX-License-Identifier: BSD-3-Clause
#include "profile/step_trace.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/median.h"

namespace reprise::detail {
namespace {

constexpr std::size_t kMostResults = 32;

double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

void add_once(std::vector<int32_t>& list, int32_t index) {
  if (std::find(list.begin(), list.end(), index) == list.end()) list.push_back(index);
}

/// Which nodes become one operator.
class Groups {
 public:
  explicit Groups(const StepRecord& record) : record_(record), parent_(record.nodes.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    find_versions();
    find_readers();
    for (const auto& versions : versions_) {
      if (versions.size() < 2) continue;
      if (is_read_in_between(versions)) {
        pin(versions);
        continue;
      }
      for (const ValueId id : versions) join(producer(versions.back()), producer(id));
    }
    // What a group makes before its last operator must not be read before that.
    for (bool again = true; again;) {
      again = false;
      note_members();
      for (const auto& versions : versions_) {
        if (versions.size() < 2 || pinned_[storage(versions[0])]) continue;
        if (!is_read_early(producer(versions.back()))) continue;
        pin(versions);
        again = true;
      }
      if (again) regroup();
    }
  }

  NodeId group_of(NodeId id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }
  NodeId last_of(NodeId id) const { return last_[group_of(id)]; }
  bool is_pinned(int32_t storage) const { return pinned_[storage]; }
  const std::vector<ValueId>& versions(int32_t storage) const { return versions_[storage]; }

 private:
  NodeId producer(ValueId id) const { return record_.values[id].producer; }
  int32_t storage(ValueId id) const { return record_.values[id].storage; }

  void find_versions() {
    int32_t storages = 0;
    for (const auto& value : record_.values) storages = std::max(storages, value.storage + 1);
    versions_.resize(storages);
    pinned_.assign(storages, false);
    for (std::size_t id = 0; id < record_.values.size(); ++id) {
      const auto value = static_cast<ValueId>(id);
      if (producer(value) != kNone) versions_[storage(value)].push_back(value);
    }
  }

  void find_readers() {
    readers_.resize(record_.values.size());
    for (std::size_t id = 0; id < record_.nodes.size(); ++id) {
      for (const ValueId read : record_.nodes[id].reads) {
        readers_[read].push_back(static_cast<NodeId>(id));
      }
    }
  }

  /// An earlier version is read by another than the operator that makes the next one of it; or
  /// somebody else's version came in between.
  bool is_read_in_between(const std::vector<ValueId>& versions) const {
    for (std::size_t i = 0; i + 1 < versions.size(); ++i) {
      for (const NodeId reader : readers_[versions[i]]) {
        if (reader != producer(versions[i + 1])) return true;
      }
    }
    return !record_.values[versions.back()].latest;
  }

  void pin(const std::vector<ValueId>& versions) { pinned_[storage(versions[0])] = true; }

  void join(NodeId a, NodeId b) { parent_[group_of(b)] = group_of(a); }

  void regroup() {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const auto& versions : versions_) {
      if (versions.size() < 2 || pinned_[storage(versions[0])]) continue;
      for (const ValueId id : versions) join(producer(versions.back()), producer(id));
    }
  }

  void note_members() {
    last_.assign(parent_.size(), 0);
    members_.assign(parent_.size(), {});
    for (std::size_t id = 0; id < parent_.size(); ++id) {
      const auto node = static_cast<NodeId>(id);
      last_[group_of(node)] = node;
      members_[group_of(node)].push_back(node);
    }
  }

  bool is_read_early(NodeId of_group) const {
    const NodeId group = group_of(of_group);
    for (const NodeId id : members_[group]) {
      for (const ValueId made : record_.nodes[id].makes) {
        for (const NodeId reader : readers_[made]) {
          if (group_of(reader) != group && last_of(reader) < last_[group]) return true;
        }
      }
    }
    return false;
  }

  const StepRecord& record_;
  std::vector<NodeId> parent_, last_;
  std::vector<std::vector<NodeId>> members_;    // by group
  std::vector<std::vector<ValueId>> versions_;  // by storage, those that were made
  std::vector<char> pinned_;                    // by storage
  std::vector<std::vector<NodeId>> readers_;    // by value
};

class Tracer {
 public:
  explicit Tracer(const StepRecord& record)
      : record_(record),
        groups_(record),
        value_(record.values.size(), kNone),
        operator_(record.nodes.size(), kNone) {}

  std::optional<MappedTrace> run() {
    add_operators();
    for (const TracedOperator& op : trace().operators) {
      if (op.makes.size() > kMostResults) return std::nullopt;
    }
    add_events();
    add_lives();
    add_bytes();
    mapped_.hashes = record_.hashes;
    return std::move(mapped_);
  }

 private:
  StepTrace& trace() { return mapped_.trace; }

  void add_operators() {
    const auto count = static_cast<NodeId>(record_.nodes.size());
    std::vector<std::vector<NodeId>> members(count);
    for (NodeId id = 0; id < count; ++id) members[groups_.last_of(id)].push_back(id);
    for (NodeId last = 0; last < count; ++last) {
      if (members[last].empty()) continue;
      const auto index = static_cast<int32_t>(trace().operators.size());
      TracedOperator& op = trace().operators.emplace_back();
      op.name = record_.nodes[last].name;
      for (const NodeId id : members[last]) operator_[id] = index;
      for (const NodeId id : members[last]) add_node(id, op);
      last_node_.push_back(last);
      mapped_.operators.push_back(std::move(members[last]));
    }
  }

  void add_node(NodeId id, TracedOperator& op) {
    const StepRecord::Node& node = record_.nodes[id];
    op.microseconds += microseconds(node.time);
    op.replayable = op.replayable && node.repeatable;
    for (const ValueId read : node.reads) {
      const StepRecord::Value& value = record_.values[read];
      if (groups_.is_pinned(value.storage) && !value.latest) op.replayable = false;
      const int32_t index = value_[groups_.versions(value.storage).back()];
      const bool own = std::find(op.makes.begin(), op.makes.end(), index) != op.makes.end();
      if (index != kNone && !own) add_once(op.reads, index);
    }
    for (const ValueId made : node.makes) {
      const StepRecord::Value& value = record_.values[made];
      const auto& versions = groups_.versions(value.storage);
      const bool pinned = groups_.is_pinned(value.storage);
      if (pinned) op.replayable = false;
      if (made != (pinned ? versions.front() : versions.back())) continue;
      const auto index = static_cast<int32_t>(trace().values.size());
      value_[versions.back()] = index;
      op.makes.push_back(index);
      trace().values.emplace_back().bytes = value.bytes;
      mapped_.values.push_back(versions.back());
      if (!record_.values[versions.back()].latest) op.replayable = false;
    }
  }

  int32_t index_of(ValueId id) const { return id == kNone ? kNone : value_[id]; }

  void add_events() {
    for (const StepRecord::Event& event : record_.events) {
      BackwardEvent& traced = trace().events.emplace_back();
      traced.name = event.name;
      traced.microseconds = microseconds(event.time);
      if (event.belongs_to != kNone) traced.belongs_to = operator_[event.belongs_to];
      for (const ValueId id : event.unpacks) {
        if (index_of(id) != kNone) add_once(traced.unpacks, index_of(id));
      }
      for (const ValueId id : event.holds) {
        const int32_t index = index_of(id);
        const auto& unpacks = traced.unpacks;
        if (index == kNone) continue;
        if (std::find(unpacks.begin(), unpacks.end(), index) == unpacks.end()) {
          add_once(traced.holds, index);
        }
      }
      mapped_.unpacks.push_back(event.unpacks);
    }
    // What the program and the recording took beside the operators.
    int64_t operators = 0;
    for (const StepRecord::Node& node : record_.nodes) operators += node.time;
    if (!trace().events.empty()) {
      trace().events[0].microseconds +=
          microseconds(std::max<int64_t>(0, record_.forward_time - operators));
    }
  }

  /// The number of operators that have ended before this node begins.
  int32_t operators_before(NodeId node) const {
    return static_cast<int32_t>(std::lower_bound(last_node_.begin(), last_node_.end(), node) -
                                last_node_.begin());
  }

  void add_lives() {
    const auto operators = static_cast<int32_t>(trace().operators.size());
    const auto nodes = static_cast<int32_t>(record_.nodes.size());
    const auto end = operators + static_cast<int32_t>(trace().events.size());
    std::vector<int32_t> maker(trace().values.size());
    for (int32_t i = 0; i < operators; ++i) {
      for (const int32_t made : trace().operators[i].makes) maker[made] = i;
    }
    for (std::size_t v = 0; v < trace().values.size(); ++v) {
      const StepRecord::Value& value = record_.values[mapped_.values[v]];
      TracedValue& traced = trace().values[v];
      int32_t held_until = end - 1;
      if (value.released != kNone) {
        held_until = value.released < nodes ? operators_before(value.released) - 1
                                            : operators + (value.released - nodes) - 1;
      }
      if (held_until > maker[v]) traced.held_until = held_until;
      if (value.saved_at != kNone) {
        traced.saved_at = std::max(operator_[value.saved_at], maker[v]);
      }
      if (value.encoded) {
        traced.encoded = EncodedForm{value.encoded->bytes, microseconds(value.encoded->encode),
                                     microseconds(value.encoded->decode)};
      }
    }
    note_ends(maker);
  }

  /// Where each value's life ends in the plain step.
  void note_ends(const std::vector<int32_t>& maker) {
    const auto operators = static_cast<int32_t>(trace().operators.size());
    const auto positions = static_cast<std::size_t>(operators) + trace().events.size();
    std::vector<int32_t> end = maker;
    const auto use = [&](int32_t value, int32_t position) {
      end[value] = std::max(end[value], position);
    };
    for (int32_t i = 0; i < operators; ++i) {
      for (const int32_t read : trace().operators[i].reads) use(read, i);
    }
    for (std::size_t j = 0; j < trace().events.size(); ++j) {
      const auto position = operators + static_cast<int32_t>(j);
      for (const int32_t unpacked : trace().events[j].unpacks) use(unpacked, position);
      for (const int32_t held : trace().events[j].holds) use(held, position);
    }
    live_.assign(positions + 1, 0);
    for (std::size_t v = 0; v < end.size(); ++v) {
      use(static_cast<int32_t>(v), trace().values[v].held_until);
      live_[maker[v]] += trace().values[v].bytes;
      live_[end[v] + 1] -= trace().values[v].bytes;
    }
    std::partial_sum(live_.begin(), live_.end(), live_.begin());
  }

  /// What is live beyond the values is scratch, in the forward pass; what is left of it at the end,
  /// such as states of generators, stays through the backward pass.
  void add_bytes() {
    const std::size_t operators = trace().operators.size();
    for (std::size_t i = 0; i < operators; ++i) {
      int64_t peak = 0;
      for (const NodeId id : mapped_.operators[i]) peak = std::max(peak, record_.nodes[id].peak);
      trace().operators[i].scratch_bytes = std::max<int64_t>(0, peak - live_[i]);
    }
    const int64_t beside = std::max<int64_t>(0, record_.live_at_seal - live_[operators]);
    for (std::size_t j = 0; j < trace().events.size(); ++j) {
      const StepRecord::Event& event = record_.events[j];
      BackwardEvent& traced = trace().events[j];
      traced.gradient_bytes_before = beside + std::max<int64_t>(0, event.before);
      traced.gradient_bytes =
          std::max(traced.gradient_bytes_before, beside + std::max<int64_t>(0, event.after));
      traced.scratch_bytes = std::max<int64_t>(0, beside + event.peak - traced.gradient_bytes);
    }
  }

  const StepRecord& record_;
  const Groups groups_;
  MappedTrace mapped_;
  std::vector<int32_t> value_;     // index in the trace, by value; of the last version of a storage
  std::vector<int32_t> operator_;  // index in the trace, by node
  std::vector<NodeId> last_node_;  // by operator of the trace
  std::vector<int64_t> live_;      // bytes of values in the plain step, by position
};

}  // namespace

std::optional<MappedTrace> trace_of(const StepRecord& record) { return Tracer(record).run(); }

std::shared_ptr<const Schedule> schedule_of(const Plan& plan, const MappedTrace& mapped) {
  auto schedule = std::make_shared<Schedule>();
  schedule->hashes = mapped.hashes;
  for (std::size_t v = 0; v < mapped.values.size(); ++v) {
    const auto id = static_cast<std::size_t>(mapped.values[v]);
    if (schedule->fates.size() <= id) schedule->fates.resize(id + 1, Schedule::Fate::none);
    switch (plan.decisions[v]) {
      case reprise::Decision::none:
        break;
      case reprise::Decision::keep:
        schedule->fates[id] = Schedule::Fate::keep;
        break;
      case reprise::Decision::encode:
        schedule->fates[id] = Schedule::Fate::encode;
        break;
      case reprise::Decision::recompute:
        schedule->fates[id] = Schedule::Fate::drop;
        break;
      case reprise::Decision::offload:
        schedule->fates[id] = Schedule::Fate::send;
        break;
    }
  }
  const auto ids = [&](const std::vector<int32_t>& values) {
    std::vector<ValueId> result;
    for (const int32_t value : values) result.push_back(mapped.values[value]);
    return result;
  };
  std::vector<Schedule::Move> moves;
  for (const PlanStep& step : plan.steps) {
    switch (step.kind) {
      case PlanStep::Kind::forward:
      case PlanStep::Kind::encode:
        break;
      case PlanStep::Kind::send:  // it begins when the program lets go, and memory waits for it
        break;
      case PlanStep::Kind::replay:
        moves.push_back({mapped.operators[step.index], ids(step.leaves), ids(step.frees),
                         ids(step.frees_encoded)});
        break;
      case PlanStep::Kind::decode:
      case PlanStep::Kind::fetch:
        moves.push_back({{}, ids({step.index}), ids(step.frees), ids(step.frees_encoded)});
        break;
      case PlanStep::Kind::backward:
        if (mapped.unpacks[step.index].empty()) {  // nobody tells of it: at the next one
          moves.push_back({{}, {}, ids(step.frees), ids(step.frees_encoded)});
        } else {
          schedule->events.push_back({mapped.unpacks[step.index], std::exchange(moves, {}),
                                      ids(step.frees), ids(step.frees_encoded)});
        }
        break;
    }
  }
  return schedule;
}

StepTrace median_of(const std::vector<StepTrace>& traces) {
  StepTrace result = traces.back();
  const auto combine = [&](auto get) {
    std::vector<double> numbers;
    for (const StepTrace& trace : traces) numbers.push_back(static_cast<double>(get(trace)));
    return median(std::move(numbers));
  };
  const auto bytes = [&](auto get) { return static_cast<int64_t>(combine(get)); };
  for (std::size_t i = 0; i < result.operators.size(); ++i) {
    TracedOperator& op = result.operators[i];
    op.microseconds = combine([&](const StepTrace& t) { return t.operators[i].microseconds; });
    op.scratch_bytes = bytes([&](const StepTrace& t) { return t.operators[i].scratch_bytes; });
  }
  for (std::size_t j = 0; j < result.events.size(); ++j) {
    BackwardEvent& event = result.events[j];
    event.microseconds = combine([&](const StepTrace& t) { return t.events[j].microseconds; });
    event.scratch_bytes = bytes([&](const StepTrace& t) { return t.events[j].scratch_bytes; });
    event.gradient_bytes = bytes([&](const StepTrace& t) { return t.events[j].gradient_bytes; });
    event.gradient_bytes_before =
        bytes([&](const StepTrace& t) { return t.events[j].gradient_bytes_before; });
  }
  // A smaller form is known once it has been tried.
  for (const StepTrace& trace : traces) {
    for (std::size_t v = 0; v < result.values.size(); ++v) {
      if (!result.values[v].encoded) result.values[v].encoded = trace.values[v].encoded;
    }
  }
  return result;
}

}  // namespace reprise::detail
