// SPDX-License-Identifier: BSD-3-Clause
#include "plan/problem.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace reprise::planner {
namespace {

Lists lists_of(const std::vector<std::vector<Index>>& lists) {
  Lists flat;
  for (const std::vector<Index>& list : lists) flat.add(list);
  return flat;
}

void add_operators(const StepTrace& trace, Problem& problem) {
  problem.operators = static_cast<Index>(trace.operators.size());
  problem.producer.assign(trace.values.size(), kNone);
  problem.fixed.assign(trace.values.size(), 0);
  problem.last_read.assign(trace.values.size(), kNone);
  std::unordered_map<std::string, Index> kinds;
  for (Index i = 0; i < problem.operators; ++i) {
    const TracedOperator& op = trace.operators[i];
    problem.time.push_back(op.microseconds);
    problem.scratch.push_back(op.scratch_bytes);
    problem.reads.add(op.reads);
    problem.makes.add(op.makes);
    problem.replayable.push_back(op.replayable ? 1 : 0);
    problem.kind.push_back(kinds.try_emplace(op.name, kinds.size()).first->second);
    problem.rank.push_back(2 * i);
    problem.role.push_back(Role::run);
    for (Index v : op.reads) problem.last_read[v] = i;
    for (Index v : op.makes) {
      problem.producer[v] = i;
      if (!op.replayable) problem.fixed[v] = 1;
    }
  }
}

void add_values(const StepTrace& trace, Problem& problem) {
  problem.values = static_cast<Index>(trace.values.size());
  const auto positions = trace.operators.size() + trace.events.size();
  std::vector<std::vector<Index>> released(positions), encode_after(trace.operators.size());
  for (Index v = 0; v < problem.values; ++v) {
    const TracedValue& value = trace.values[v];
    problem.bytes.push_back(value.bytes);
    problem.held_until.push_back(value.held_until);
    if (value.held_until >= 0) {
      released[value.held_until].push_back(v);
      problem.holds_any = true;
    }
    const Index saved_at = value.saved_at >= 0 ? value.saved_at : problem.producer[v];
    problem.saved_at.push_back(saved_at);
    if (value.encoded) encode_after[saved_at].push_back(v);
  }
  problem.released_at = lists_of(released);
  problem.encode_after = lists_of(encode_after);
}

void add_codecs(const StepTrace& trace, Problem& problem) {
  problem.encoder.assign(trace.values.size(), kNone);
  problem.decoder.assign(trace.values.size(), kNone);
  for (Index v = 0; v < problem.values; ++v) {
    const std::optional<EncodedForm>& form = trace.values[v].encoded;
    if (!form) continue;
    const auto smaller = static_cast<Index>(problem.bytes.size());
    const Index rank = 2 * problem.producer[v] + 1;
    problem.encoder[v] = problem.all_operators();
    problem.time.push_back(form->encode_us);
    problem.reads.add({v});
    problem.makes.add({smaller});
    problem.decoder[v] = problem.all_operators();
    problem.time.push_back(form->decode_us);
    problem.reads.add({smaller});
    problem.makes.add({v});
    problem.scratch.insert(problem.scratch.end(), 2, 0);
    problem.rank.insert(problem.rank.end(), 2, rank);
    problem.role.insert(problem.role.end(), {Role::encode, Role::decode});
    problem.bytes.push_back(form->bytes);
    problem.producer.push_back(problem.encoder[v]);
  }
}

Index add_transfer(Problem& problem, Role role, Index v, double work,
                   std::initializer_list<Index> reads, std::initializer_list<Index> makes) {
  problem.time.push_back(work);  // of the step; the transfer runs beside it
  problem.scratch.push_back(0);
  problem.rank.push_back(2 * problem.producer[v] + 1);
  problem.role.push_back(role);
  problem.reads.add(reads);
  problem.makes.add(makes);
  return problem.all_operators() - 1;
}

void add_store(const StepTrace& trace, Problem& problem) {
  const TracedStore& store = *trace.store;
  problem.has_store = true;
  std::vector<std::vector<Index>> send_after(trace.operators.size());
  for (Index v = 0; v < problem.values; ++v) {
    const auto bytes = static_cast<double>(problem.bytes[v]);
    const Index copy = problem.all_values();
    const double work = bytes * store.work_us_per_byte;
    problem.sender.push_back(add_transfer(problem, Role::send, v, work, {v}, {copy}));
    problem.settler.push_back(add_transfer(problem, Role::settle, v, 0, {v}, {}));
    problem.fetcher.push_back(add_transfer(problem, Role::fetch, v, work, {copy}, {v}));
    problem.send_us.push_back(store.latency_us + bytes / store.send_bytes_per_us);
    problem.fetch_us.push_back(store.latency_us + bytes / store.fetch_bytes_per_us);
    problem.held.push_back(0);
    problem.movable.push_back(problem.bytes[v] > 0 && problem.bytes[v] >= store.least_bytes);
    problem.bytes.push_back(0);
    problem.producer.push_back(problem.sender[v]);
    send_after[problem.saved_at[v]].push_back(v);
  }
  problem.send_after = lists_of(send_after);
}

void add_events(const StepTrace& trace, Problem& problem) {
  problem.events = static_cast<Index>(trace.events.size());
  std::vector<std::vector<Index>> needed_at(problem.all_values());
  std::vector<Index> before;
  for (Index j = 0; j < problem.events; ++j) {
    const BackwardEvent& event = trace.events[j];
    std::vector<Index> unpacked = event.unpacks;
    std::sort(unpacked.begin(), unpacked.end());
    std::vector<Index> needs = unpacked;
    needs.insert(needs.end(), event.holds.begin(), event.holds.end());
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    for (Index v : needs) {
      needed_at[v].push_back(j);
      const bool asked_for = std::binary_search(unpacked.begin(), unpacked.end(), v) ||
                             std::binary_search(before.begin(), before.end(), v);
      if (asked_for) continue;
      problem.fixed[v] = 1;
      if (!problem.has_store) continue;
      problem.held[v] = 1;
      problem.movable[v] = 0;
    }
    problem.event_time.push_back(event.microseconds);
    problem.event_bytes.push_back(event.gradient_bytes + event.scratch_bytes);
    problem.gradients_before.push_back(event.gradient_bytes_before);
    problem.unpacks.push_back(event.unpacks.empty() ? 0 : 1);
    problem.needs.add(needs);
    before = std::move(needs);
  }
  problem.needed_at = lists_of(needed_at);
  problem.fixed.resize(problem.all_values(), 0);

  problem.event_operator.assign(problem.events, kNone);
  Index latest = kNone;
  for (Index j = problem.events - 1; j >= 0; --j) {
    latest = std::max(latest, trace.events[j].belongs_to);
    for (Index v : problem.needs[j]) latest = std::max(latest, problem.producer[v]);
    problem.event_operator[j] = latest;
  }
}

}  // namespace

Problem compile(const StepTrace& trace, Store store) {
  check_trace(trace);
  Problem problem;
  add_operators(trace, problem);
  add_values(trace, problem);
  add_codecs(trace, problem);
  if (store == Store::take && trace.store) add_store(trace, problem);
  add_events(trace, problem);
  return problem;
}

}  // namespace reprise::planner
