// SPDX-License-Identifier: BSD-3-Clause
#include "tape/held_set.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "tape/held_sets.h"

namespace reprise::detail {
namespace {

constexpr float kNever = std::numeric_limits<float>::infinity();

std::mutex& the_lock() {
  static auto& mutex = *new std::mutex;  // tensors may outlive main()
  return mutex;
}

thread_local bool in_lock = false;

}  // namespace

bool in_held_sets() { return in_lock; }

HeldSetsLock::HeldSetsLock() : lock_(the_lock()) { in_lock = true; }

HeldSetsLock::~HeldSetsLock() { in_lock = false; }

std::vector<HeldSet*>& HeldSetsLock::sets() {
  static auto& sets = *new std::vector<HeldSet*>;
  return sets;
}

HeldSet::HeldSet(std::shared_ptr<Room> room) : room_(std::move(room)) {
  HeldSetsLock lock;
  lock.sets().push_back(this);
}

// The storages go with the members, when the set is no longer known and the lock is free.
HeldSet::~HeldSet() {
  HeldSetsLock lock;
  auto& sets = lock.sets();
  sets.erase(std::find(sets.begin(), sets.end(), this));
}

void HeldSet::add_value(NodeId producer) {
  const HeldSetsLock lock;
  values_.emplace_back(producer);
}

void HeldSet::add_node(float cost, c10::SmallVector<ValueId, 4> inputs,
                       c10::SmallVector<ValueId, 2> products) {
  const HeldSetsLock lock;
  const auto id = static_cast<NodeId>(nodes_.size());
  for (const ValueId input : inputs) values_[input].readers.push_back(id);
  nodes_.push_back({cost, 0, std::move(inputs), std::move(products)});
}

void HeldSet::lose(ValueId value) {
  const HeldSetsLock lock;
  values_[value].lost = true;
  availability_changed(value);
}

void HeldSet::hold(ValueId value, c10::Storage contents) {
  const HeldSetsLock lock;
  Entry& entry = values_[value];
  if (entry.storage) return;
  entry.storage = std::move(contents);
  entry.place = static_cast<int32_t>(held_.size());
  held_.push_back(value);
  if (entry.position == kNone) entry.position = static_cast<int32_t>(nodes_.size());
  availability_changed(value);
}

c10::Storage HeldSet::get(ValueId value) const {
  const HeldSetsLock lock;
  return values_[value].storage;
}

bool HeldSet::holds(ValueId value) const {
  const HeldSetsLock lock;
  return static_cast<bool>(values_[value].storage);
}

c10::Storage HeldSet::take(ValueId value) {
  const HeldSetsLock lock;
  return remove(value);
}

void HeldSet::keep(ValueId value, bool kept) {
  const HeldSetsLock lock;
  values_[value].kept = kept;
  availability_changed(value);
}

void HeldSet::come_to(ValueId value) {
  const HeldSetsLock lock;
  position_ = values_[value].position;
}

void HeldSet::Protection::add(ValueId value) {
  values_.push_back(value);
  const HeldSetsLock lock;
  ++set_.values_[value].protections;
}

HeldSet::Protection::~Protection() {
  const HeldSetsLock lock;
  for (const ValueId value : values_) --set_.values_[value].protections;
}

c10::Storage HeldSet::remove(ValueId value) {
  Entry& entry = values_[value];
  if (!entry.storage) return {};
  c10::Storage contents = std::exchange(entry.storage, c10::Storage());
  const ValueId last = held_.back();
  held_[entry.place] = last;
  values_[last].place = entry.place;
  held_.pop_back();
  entry.place = kNone;
  availability_changed(value);
  return contents;
}

// Its own cost may have been measured with others at hand; and so may the costs of all that would
// be made from it, up to values that are at hand.
void HeldSet::availability_changed(ValueId first) {
  ++mark_;
  values_[first].cost = -1;
  open_.assign(1, first);
  while (!open_.empty()) {
    const ValueId value = open_.back();
    open_.pop_back();
    for (const NodeId reader : values_[value].readers) {
      if (std::exchange(nodes_[reader].mark, mark_) == mark_) continue;
      for (const ValueId product : nodes_[reader].products) {
        Entry& entry = values_[product];
        entry.cost = -1;
        if (!entry.at_hand()) open_.push_back(product);
      }
    }
  }
}

// The operators that would run again: each counts once.
float HeldSet::cost_of(ValueId value) {
  Entry& target = values_[value];
  if (target.cost >= 0) return target.cost;
  ++mark_;
  float cost = 0;
  open_.assign(1, value);
  while (!open_.empty()) {
    const NodeId producer = values_[open_.back()].producer;
    open_.pop_back();
    Operator& node = nodes_[producer];
    if (std::exchange(node.mark, mark_) == mark_) continue;
    cost += node.cost;
    for (const ValueId input : node.inputs) {
      const Entry& entry = values_[input];
      if (entry.lost) cost = kNever;
      if (input != value && !entry.at_hand() && !entry.lost) open_.push_back(input);
    }
  }
  target.cost = cost;
  return cost;
}

// What others hold as well would stay; what lives elsewhere makes no room.
bool HeldSet::is_droppable(const Entry& entry) const {
  return entry.producer != kNone && !entry.lost && entry.storage.use_count() == 1 &&
         room_->memory.owns(entry.storage.data_ptr());
}

}  // namespace reprise::detail
