// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include <reprise/budget_infeasible.h>

#include "meter/gauge.h"
#include "meter/region_log.h"
#include "meter/replay_clock.h"
#include "tape/locals.h"
#include "tape/products.h"
#include "tape/replay_cost.h"
#include "torch/backward_pass.h"
#include "torch/below_autograd.h"

// Values that are held while there is room, and replays within a room: any allocation may drop
// whatever is held, also of this tape, also in the middle of a replay. So a value is looked up
// again whenever it is needed.

namespace reprise::detail {

void Tape::mirror_values() {
  for (std::size_t id = yielding_->values(); id < values_.size(); ++id) {
    yielding_->add_value(values_[id].producer);
    if (values_[id].lost) yielding_->lose(static_cast<ValueId>(id));
  }
}

void Tape::mirror_last_node(int64_t nanoseconds) {
  mirror_values();
  const auto id = static_cast<NodeId>(nodes_.size()) - 1;
  const Node& node = nodes_[id];
  c10::SmallVector<ValueId, 4> inputs;
  c10::SmallVector<ValueId, 2> products;
  for_each_input(node, [&](ValueId input) { inputs.push_back(input); });
  for_each_product(node, id, values_, [&](ValueId product) { products.push_back(product); });
  yielding_->add_node(settled_cost(node, nanoseconds), std::move(inputs), std::move(products));
}

/// Saved tensors are brought back from the latest contents of a storage.
void Tape::hold_if_wanted(ValueId id, const c10::Storage& contents) {
  const Value& value = values_[id];
  const StorageRecord& record = storages_[value.storage];
  if (record.tickets == 0 || record.versions.back() != id || value.is_kept()) return;
  mirror_values();
  hold(id, contents);
}

/// What is made in the backward pass is not the step's.
void Tape::hold(ValueId id, const c10::Storage& contents) {
  if (sealed_) gauge().discount(contents);
  yielding_->hold(id, contents);
}

void Tape::end_yielding(int32_t storage) {
  const StorageRecord& record = storages_[storage];
  if (!yielding_ || record.versions.empty()) return;
  mirror_values();
  yielding_->take(record.versions.back());
}

at::Tensor Tape::bring_back_lazily(std::size_t index) {
  const Ticket& ticket = tickets_[index];
  const ValueId value = sealed_ ? ticket.value : storages_[ticket.storage].versions.back();
  const Gauge::Pause pause(gauge());
  yielding_->come_to(value);
  if (options_.guide) unpack_begins(ticket, value);
  // Its own storage is what autograd would have kept, whatever became of it.
  c10::Storage storage = yielding_->get(value);
  const BelowAutograd below;
  if (!storage) storage = available(value);
  if (!storage) storage = alive_elsewhere(value);
  if (!storage) {
    ReplayClock clock;
    const NumericsReplay numerics(numerics_);
    const int64_t before = counts_.replays;
    storage = replay_lazily(value, nullptr);
    clock.count_operators(counts_.replays - before);
    ++options_.room->replays;
    options_.room->nanoseconds += static_cast<int64_t>(clock.milliseconds() * 1e6);
    log_replay(options_.label, clock.milliseconds());
  }
  if (!schedule_) hold_if_wanted(value, storage);
  if (options_.guide) unpack_ends(value, storage);
  return ticket.geometry.on(storage);
}

std::vector<NodeId> Tape::lazy_closure(ValueId target, LazyReplay& replay) {
  const auto in_outer = [&](ValueId id) {
    for (const LazyReplay* outer = replay.outer; outer != nullptr; outer = outer->outer) {
      const auto local = outer->locals.find(id);
      if (local != outer->locals.end() && local->second.storage) return true;
    }
    return false;
  };
  std::unordered_set<NodeId> nodes;
  std::vector<ValueId> open{target};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (replay.locals[id].reads++ > 0) continue;
    const Value& value = values_[id];
    if (value.producer == kNone || value.is_kept()) continue;
    if (yielding_->holds(id)) {
      replay.sources.add(id);
      continue;
    }
    if (value.slot != kNone && !offloads_->is_lost(value.slot)) continue;
    if (in_outer(id) || !nodes.insert(value.producer).second) continue;
    for_each_input(nodes_[value.producer], [&](ValueId input) { open.push_back(input); });
  }
  std::vector<NodeId> ordered(nodes.begin(), nodes.end());
  std::sort(ordered.begin(), ordered.end());
  return ordered;
}

c10::Storage Tape::fetch(ValueId input, LazyReplay& replay) {
  if (c10::Storage storage = available(input)) return storage;
  for (const LazyReplay* outer = replay.outer; outer != nullptr; outer = outer->outer) {
    const auto local = outer->locals.find(input);
    if (local != outer->locals.end() && local->second.storage) return local->second.storage;
  }
  return replay_lazily(input, &replay);
}

void Tape::LazyReplay::run(Tape& tape, NodeId id) {
  const Node& node = tape.nodes_[id];
  for_each_input(node, [&](ValueId input) {
    Local& local = locals[input];
    if (!local.storage) local.storage = tape.fetch(input, *this);
  });
  tape.run_again(node, id, locals, kNoPass);
  ++tape.options_.room->operators;
  for_each_input(node, [&](ValueId input) {
    Local& local = locals[input];
    if (--local.reads == 0 || !local.made_here) local.storage = c10::Storage();
  });
}

c10::Storage Tape::replay_lazily(ValueId target, const LazyReplay* outer) {
  LazyReplay replay(*yielding_, outer);
  const std::vector<NodeId> nodes = lazy_closure(target, replay);
  for (const NodeId id : nodes) {
    count_replay();
    replay.run(*this, id);
  }
  return replay.locals[target].storage;
}

// Where every replay drops what the next one needs, there is no end to it.
void Tape::count_replay() {
  constexpr int64_t kMostPerOperator = 3;
  const int64_t pass = current_pass();
  if (std::exchange(counted_pass_, pass) != pass) replays_in_pass_ = 0;
  if (++replays_in_pass_ <= kMostPerOperator * static_cast<int64_t>(nodes_.size())) return;
  replays_in_pass_ = 0;
  const int64_t limit = options_.room->memory.limit();
  throw BudgetInfeasible(
      "a budget of " + std::to_string(limit) + " bytes is too small to train in: one backward " +
          "pass has run more than " + std::to_string(kMostPerOperator) + " times as many " +
          "operators again as its forward pass has",
      "give the budget more bytes, or take the batch in smaller parts and accumulate", limit, 0,
      "");
}

}  // namespace reprise::detail
