// SPDX-License-Identifier: BSD-3-Clause
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meter/region_log.h"
#include "tape/products.h"
#include "tape/tape.h"
#include "torch/backward_pass.h"
#include "torch/warning.h"

// Who still needs what. Two counts for each value, kept by the same rules:
//
//   readers  tickets of the graph, and operators that such tickets may make run again. When it
//   falls
//            to zero, nothing can ask for the value any more: what is held for it goes.
//   waiting  the same, less what the running backward pass has had. When it falls to zero, the
//            replayed contents go, even if the graph is retained.

namespace reprise::detail {

/// Whether it need not be made again. A schedule lets go of smaller forms before its pass is over,
/// and another pass may want them.
bool Tape::stays(const Value& value) const {
  return value.held || value.stored || (value.encoded && !schedule_);
}

void Tape::release(ValueId id) {
  Value& value = values_[id];
  value.held = c10::Storage();
  value.cached = c10::Storage();
  value.encoded.reset();
  if (value.slot != kNone) {
    offloads_->release(std::exchange(value.slot, kNone));
    if (yielding_) yielding_->keep(id, false);
  }
  value.stored = false;
  if (yielding_) yielding_->take(id);
}

void Tape::count_readers() {
  for (Value& value : values_) value.readers = 0;
  for (Ticket& ticket : tickets_) {
    ticket.value = storages_[ticket.storage].versions.back();
    if (ticket.alive) ++values_[ticket.value].readers;
  }
  for (auto id = static_cast<NodeId>(nodes_.size()) - 1; id >= 0; --id) {
    Node& node = nodes_[id];
    node.needed = false;
    for_each_product(node, id, values_, [&](ValueId product) {
      node.needed |= values_[product].readers > 0 && !stays(values_[product]);
    });
    if (node.needed) {
      for_each_input(node, [&](ValueId input) { ++values_[input].readers; });
    } else {
      forget(node);
    }
  }
  if (yielding_) mirror_values();
  for (std::size_t id = 0; id < values_.size(); ++id) {
    if (values_[id].readers == 0) release(static_cast<ValueId>(id));
  }
}

void Tape::count_waiting(int64_t pass) {
  pass_ = pass;
  if (offloads_) offloads_->begin_pass();
  // What this backward pass does not come to ask for (a partial gradient) must not outlive it.
  on_pass_end([tape = weak_from_this(), pass] {
    if (const auto alive = tape.lock()) alive->end_waiting(pass);
  });
  for (Value& value : values_) {
    value.waiting = 0;
    value.cached = c10::Storage();
  }
  for (const Ticket& ticket : tickets_) {
    if (ticket.alive) ++values_[ticket.value].waiting;
  }
  for (auto id = static_cast<NodeId>(nodes_.size()) - 1; id >= 0; --id) {
    Node& node = nodes_[id];
    bool runs = false;
    for_each_product(node, id, values_, [&](ValueId product) {
      runs |= values_[product].waiting > 0 && !stays(values_[product]);
    });
    if (node.needed && runs) {
      for_each_input(node, [&](ValueId input) { ++values_[input].waiting; });
    } else {
      node.ran_in = pass;  // nothing to run it for
    }
  }
}

void Tape::end_waiting(int64_t pass) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (pass_ != pass) return;
  pass_ = kNoPass;
  if (offloads_) offloads_->end_pass();
  for (Value& value : values_) value.cached = c10::Storage();
}

void Tape::drop_reader(ValueId first) {
  std::vector<ValueId> dropped{first};  // a stack of our own: chains are long
  while (!dropped.empty()) {
    const ValueId id = dropped.back();
    Value& value = values_[id];
    dropped.pop_back();
    if (--value.readers > 0) continue;
    release(id);
    if (value.producer == kNone || !nodes_[value.producer].needed) continue;
    Node& node = nodes_[value.producer];
    bool needed = false;
    for_each_product(node, value.producer, values_, [&](ValueId product) {
      needed |= values_[product].readers > 0 && !stays(values_[product]);
    });
    if (needed) continue;
    for_each_input(node, [&](ValueId input) { dropped.push_back(input); });
    forget(node);
  }
}

void Tape::drop_waiting(ValueId first) {
  std::vector<ValueId> dropped{first};
  while (!dropped.empty()) {
    Value& value = values_[dropped.back()];
    dropped.pop_back();
    if (--value.waiting > 0) continue;
    value.cached = c10::Storage();
    if (value.producer == kNone) continue;
    Node& node = nodes_[value.producer];
    if (!node.needed || node.ran_in == pass_) continue;  // it has given up its inputs already
    bool waited_for = false;
    for_each_product(node, value.producer, values_, [&](ValueId product) {
      waited_for |= values_[product].waiting > 0 && !stays(values_[product]);
    });
    if (waited_for) continue;
    node.ran_in = pass_;  // it need not run any more
    for_each_input(node, [&](ValueId input) { dropped.push_back(input); });
  }
}

void Tape::forget(Node& node) {
  node.needed = false;
  node.constants.clear();
  node.arguments.clear();
  node.rng.reset();
}

void Tape::release_ticket(std::size_t index) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  Ticket& ticket = tickets_[index];
  ticket.alive = false;
  if (--storages_[ticket.storage].tickets == 0 && yielding_) end_yielding(ticket.storage);
  if (!sealed_) return;
  if (pass_ != kNoPass && ticket.served_in != pass_) drop_waiting(ticket.value);
  drop_reader(ticket.value);
}

// What nobody has any more; counted for one device, as a tape that drops on several is rare.
void Tape::count_dropped() {
  if (options_.audit || yielding_) return;
  std::vector<bool> seen(values_.size(), false);
  int64_t bytes = 0;
  std::optional<c10::Device> device;
  for (const Ticket& ticket : tickets_) {
    const StorageRecord& record = storages_[ticket.storage];
    if (!ticket.alive || seen[ticket.value] || values_[ticket.value].is_kept()) continue;
    if (record.storage.use_count() > 0 || (device && *device != record.device)) continue;
    seen[ticket.value] = true;
    device = record.device;
    bytes += static_cast<int64_t>(values_[ticket.value].bytes);
  }
  if (device) dropped_.set(bytes, *device);
}

void Tape::look_at_savings(ValueId brought_back) {
  auto bytes = static_cast<int64_t>(values_[brought_back].bytes);
  for (auto id = ValueId{0}; id < static_cast<ValueId>(values_.size()); ++id) {
    if (id != brought_back && values_[id].cached) bytes += static_cast<int64_t>(values_[id].bytes);
  }
  if (!dropped_.saved_nothing(bytes)) return;
  log_useless_region(options_.label);
  const std::string label = options_.label.empty() ? "a scope" : "scope '" + options_.label + "'";
  warn_once(label, "reprise: " + label + " dropped " + std::to_string(bytes) +
                       " bytes, and all of them came back at once, where memory stood highest: it "
                       "costs time and saves nothing. hint: mark what to keep inside with "
                       "boundary(), or use several smaller scopes");
}

}  // namespace reprise::detail
