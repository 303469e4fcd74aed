// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <utility>

#include <reprise/error.h>

#include "base/mix.h"
#include "meter/gauge.h"
#include "meter/region_log.h"
#include "meter/replay_clock.h"
#include "tape/locals.h"
#include "tape/products.h"
#include "tape/tape.h"
#include "torch/backward_pass.h"
#include "torch/below_autograd.h"
#include "torch/engine.h"

// Following a schedule, and measuring steps to make one. A schedule only says what to hold, what to
// let go, and when to bring back what. Held values can still be dropped where there is no room, and
// what is missing is still replayed when it is asked for. So a schedule that does not fit costs
// time, and nothing else.

namespace reprise::detail {
namespace {

void mix_in(uint64_t& hash, const TensorRef& ref) {
  mix(hash, static_cast<uint64_t>(ref.value));
  if (!ref.geometry) return;
  const Geometry& geometry = *ref.geometry;
  for (const int64_t size : geometry.sizes) mix(hash, static_cast<uint64_t>(size));
  for (const int64_t stride : geometry.strides) mix(hash, static_cast<uint64_t>(stride));
  mix(hash, static_cast<uint64_t>(geometry.offset) * 2 + (geometry.requires_grad ? 1 : 0));
  mix(hash, static_cast<uint64_t>(geometry.dtype));
}

constexpr std::size_t kWorthEncoding = 4096;  // bytes

}  // namespace

/// A node has been recorded: is this still the sequence that the schedule is for?
void Tape::follow_node(NodeId id) {
  if (!options_.guide) return;
  const Node& node = nodes_[id];
  mix(hash_, reinterpret_cast<uintptr_t>(node.info));
  for (const ArgumentRef& argument : node.arguments) {
    mix(hash_, static_cast<uint64_t>(argument.index));
    for (const TensorRef& tensor : argument.tensors) mix_in(hash_, tensor);
  }
  for (const TensorRef& result : node.results) mix_in(hash_, result);
  const auto nodes = static_cast<std::size_t>(id) + 1;
  const bool on_it =
      schedule_ && schedule_->hashes.size() >= nodes && schedule_->hashes[id] == hash_;
  if (!on_it) change_schedule(options_.guide->find(hash_));
  for_each_product(node, id, values_, [&](ValueId product) {
    unreleased_.push_back(product);
    if (fate_of(product) == Schedule::Fate::none) return;
    mirror_values();
    auto alive = storages_[values_[product].storage].storage.lock();
    if (alive) yielding_->hold(product, c10::Storage(std::move(alive)));
  });
  if (recorder_) record_node(id);
}

/// To one for a sequence that has begun in the same way, or to none.
void Tape::change_schedule(std::shared_ptr<const Schedule> schedule) {
  schedule_ = std::move(schedule);
  if (!schedule_) return;
  mirror_values();
  for (auto id = ValueId{0}; id < static_cast<ValueId>(values_.size()); ++id) {
    const bool in_use = std::find(unreleased_.begin(), unreleased_.end(), id) != unreleased_.end();
    if (!in_use && yielding_->holds(id)) let_go(id);
  }
}

Schedule::Fate Tape::fate_of(ValueId value) const {
  const auto index = static_cast<std::size_t>(value);
  if (!schedule_ || index >= schedule_->fates.size()) return Schedule::Fate::none;
  return schedule_->fates[index];
}

void Tape::record_node(NodeId id) {
  const Node& node = nodes_[id];
  recorder_->note(node.info->full_name());
  recorder_->record().hashes.push_back(hash_);
  StepRecord::Node& record = recorder_->record().nodes.back();
  const auto once = [](auto& list, ValueId value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  for_each_input(node, [&](ValueId input) {
    if (values_[input].producer != kNone) once(record.reads, input);
  });
  for_each_product(node, id, values_, [&](ValueId product) { once(record.makes, product); });
  for (const Write& write : node.writes) record.writes.emplace_back(write.found, write.after);
}

/// What the program has let go of since this was last called.
void Tape::look_for_released() {
  if (!options_.guide) return;
  const std::size_t events = recorder_ ? recorder_->record().events.size() : 0;
  const auto position = static_cast<int32_t>(nodes_.size() + (sealed_ ? events - 1 : 0));
  std::erase_if(unreleased_, [&](ValueId id) {
    const Value& value = values_[id];
    const StorageRecord& record = storages_[value.storage];
    if (record.versions.back() != id) return true;
    const bool held = static_cast<std::size_t>(id) < yielding_->values() && yielding_->holds(id);
    if (record.storage.use_count() > (held ? 1U : 0U) + (value.held ? 1U : 0U)) return false;
    if (recorder_) released_.emplace_back(id, position);
    if (held) let_go(id);
    return true;
  });
}

/// The program has no use for it any more, and it is held.
void Tape::let_go(ValueId id) {
  const bool saved = storages_[values_[id].storage].tickets > 0;
  const Schedule::Fate fate = fate_of(id);
  if (schedule_ && (fate == Schedule::Fate::drop || fate == Schedule::Fate::encode)) {
    const c10::Storage contents = yielding_->take(id);
    if (saved) gauge().count_on(contents);  // in a plain step it would stay
  } else if (schedule_ && fate == Schedule::Fate::send && offloads_) {
    send_held(id);
  } else if (!saved && recorder_) {
    gauge().discount(yielding_->get(id));  // in a plain step it would go
  }
}

/// What a schedule, or else the decider, says to a value that autograd saves.
Decision Tape::decide_by_schedule(ValueId id, const at::Tensor& tensor) {
  if (recorder_ && !schedule_) measure_form(id, tensor);
  if (!schedule_) return Decision::yield;
  switch (fate_of(id)) {
    case Schedule::Fate::drop:
      return Decision::recompute;
    case Schedule::Fate::encode:
      return Decision::encode;
    default:
      return Decision::yield;
  }
}

/// Whether a value has a smaller form, and what that costs. To decode takes no longer than to
/// encode, which looks for the form, too.
void Tape::measure_form(ValueId id, const at::Tensor& tensor) {
  const Value& value = values_[id];
  const bool likely = value.drawn || !tensor.is_floating_point();
  if (!likely || options_.clock || value.bytes < kWorthEncoding || forms_.contains(id)) return;
  const Gauge::Pause pause(gauge());
  const DroppingClock clock;
  try {
    const auto encoded = Encoded::encode(tensor);
    if (encoded) forms_[id] = {encoded->bytes(), clock.nanoseconds(), clock.nanoseconds()};
  } catch (const Error&) {  // no room to try it
  }
}

void Tape::record_forward() {
  if (!recorder_) return;
  look_for_released();
  std::vector<c10::Storage> alive;
  for (const StorageRecord& record : storages_) {
    auto contents = record.storage.lock();
    if (contents && values_[record.versions.front()].producer != kNone) {
      alive.emplace_back(std::move(contents));
    }
  }
  recorder_->end_forward(alive);
  StepRecord& record = recorder_->record();
  for (std::size_t id = 0; id < nodes_.size(); ++id) {
    for_each_input(nodes_[id], [&](ValueId input) {
      if (values_[input].lost) record.nodes[id].repeatable = false;
    });
  }
  for (std::size_t id = 0; id < values_.size(); ++id) {
    const Value& value = values_[id];
    StepRecord::Value& entry = record.values.emplace_back();
    entry.storage = value.storage;
    entry.producer = value.producer;
    const bool here = storages_[value.storage].device == options_.room->memory.device();
    entry.bytes = here ? static_cast<int64_t>(value.bytes) : 0;
    entry.lost = value.lost;
    entry.latest = storages_[value.storage].versions.back() == static_cast<ValueId>(id);
  }
  for (const auto& [id, node] : saved_at_) record.values[id].saved_at = node;
  for (const auto& [id, form] : forms_) record.values[id].encoded = form;
}

// --- the backward pass ---

void Tape::unpack_begins(const Ticket& ticket, ValueId value) {
  const int64_t pass = current_pass();
  if (first_pass_ == kNoPass && sealed_ && pass != kNoPass && !is_group(pass)) {
    first_pass_ = pass;
    // The tape outlives its graph until then, and no longer: a thread of LibTorch's may hold on to
    // the callback for a while.
    on_pass_end([tape = std::make_shared<std::shared_ptr<Tape>>(shared_from_this()), pass] {
      if (const std::shared_ptr<Tape> last = std::exchange(*tape, nullptr)) last->end_step(pass);
    });
    // Another pass will want it all again.
    if (current_pass_keeps_graph()) spoil_step();
  } else if (pass != first_pass_ || pass == kNoPass) {
    spoil_step();
  }
  const bool recording = recorder_ && recorder_->is_valid();
  const bool new_event = recording && recorder_->unpack_begins(current_node(), ticket.saved_by);
  if (new_event || !recording) look_for_released();
  if (new_event) note_pins();
  if (schedule_) follow_unpack(value);
}

void Tape::unpack_ends(ValueId value, const c10::Storage& contents) {
  gauge().discount(contents);
  if (schedule_ && to_unpack_.empty()) {
    const Schedule::Event& event = schedule_->events[next_event_++];
    for (const ValueId id : event.frees) yielding_->take(id);
    for (const ValueId id : event.frees_encoded) forget_encoded(id);
  }
  if (recorder_ && recorder_->is_valid()) {
    pinned_.emplace_back(value, contents.getWeakStorageImpl());
    recorder_->unpack_ends(value);
  }
}

/// Nodes of the graph hold what they have unpacked until they end.
void Tape::note_pins() {
  std::vector<ValueId>& holds = recorder_->record().events.back().holds;
  std::erase_if(pinned_, [&](const auto& pin) {
    const auto& [id, storage] = pin;
    const c10::Storage held = yielding_->get(id);
    auto contents = storage.lock();
    if (!contents) return true;
    const std::size_t ours =
        1U + (held.unsafeGetStorageImpl() == contents.get() ? 2U : 0U) +
        (values_[id].held && values_[id].held.unsafeGetStorageImpl() == contents.get() ? 1U : 0U);
    if (contents.use_count() <= ours) return true;
    if (std::find(holds.begin(), holds.end(), id) == holds.end()) holds.push_back(id);
    return false;
  });
}

void Tape::follow_unpack(ValueId value) {
  if (to_unpack_.empty()) {
    if (next_event_ >= schedule_->events.size()) return stop_following();
    const Schedule::Event& event = schedule_->events[next_event_];
    to_unpack_ = event.unpacks;
    if (std::find(to_unpack_.begin(), to_unpack_.end(), value) == to_unpack_.end()) {
      return stop_following();
    }
    if (!event.before.empty()) run_moves(event.before);
  }
  const auto found = std::find(to_unpack_.begin(), to_unpack_.end(), value);
  if (found == to_unpack_.end()) return stop_following();
  to_unpack_.erase(found);
}

void Tape::run_moves(const std::vector<Schedule::Move>& moves) {
  struct Moving {
    explicit Moving(bool& flag) : flag(flag) { flag = true; }
    ~Moving() { flag = false; }
    bool& flag;
  } const moving(moving_);
  const BelowAutograd below;
  const NumericsReplay numerics(numerics_);
  ReplayClock clock;
  const int64_t before = counts_.replays;
  for (const Schedule::Move& move : moves) run_move(move);
  if (counts_.replays == before) return;
  clock.count_operators(counts_.replays - before);
  ++options_.room->replays;
  options_.room->nanoseconds += static_cast<int64_t>(clock.milliseconds() * 1e6);
  log_replay(options_.label, clock.milliseconds());
}

void Tape::run_move(const Schedule::Move& move) {
  if (!move.nodes.empty()) {
    LazyReplay replay(*yielding_, nullptr);
    for (const ValueId leaf : move.leaves) ++replay.locals[leaf].reads;
    run_nodes(move.nodes, replay);
    for (const ValueId leaf : move.leaves) {
      const c10::Storage& contents = replay.locals[leaf].storage;
      if (contents && !values_[leaf].is_kept()) hold(leaf, contents);
    }
  } else {
    for (const ValueId leaf : move.leaves) {
      if (values_[leaf].encoded) hold(leaf, values_[leaf].encoded->decode().storage());
      if (values_[leaf].slot != kNone) offloads_->fetch_ahead(values_[leaf].slot);
    }
  }
  for (const ValueId id : move.frees) yielding_->take(id);
  for (const ValueId id : move.frees_encoded) forget_encoded(id);
}

void Tape::run_nodes(const std::vector<NodeId>& nodes, LazyReplay& replay) {
  for (const NodeId id : nodes) {
    for_each_input(nodes_[id], [&](ValueId input) { ++replay.locals[input].reads; });
  }
  for (const NodeId id : nodes) {
    // Else what it made is there, or nobody wants it any more.
    if (nodes_[id].needed) replay.run(*this, id);
  }
}

void Tape::forget_encoded(ValueId id) {
  values_[id].encoded.reset();
  yielding_->keep(id, false);
}

void Tape::stop_following() {
  schedule_.reset();
  to_unpack_.clear();
}

/// Something goes on that no plan is made for.
void Tape::spoil_step() {
  if (recorder_) recorder_->spoil();
  stop_following();
}

void Tape::end_step(int64_t pass) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (pass != first_pass_ || !options_.guide || step_ended_) return;
  step_ended_ = true;
  if (offloads_) offloads_->end_pass();
  const bool followed = schedule_ && next_event_ == schedule_->events.size();
  const int64_t drops = options_.room->drops - drops_before_;
  if (recorder_) {
    if (recorder_->end_backward()) {
      StepRecord record = std::move(recorder_->record());
      for (const auto& [id, position] : released_) record.values[id].released = position;
      record.followed = followed;
      record.drops = drops;
      recorder_.reset();
      options_.guide->ended(std::move(record));
      return;
    }
    recorder_.reset();
  }
  options_.guide->ended_unmeasured(followed, drops);
}

}  // namespace reprise::detail
