// SPDX-License-Identifier: BSD-3-Clause
#include "tape/tape.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>

#include "meter/call_room.h"
#include "meter/region_log.h"
#include "tape/dropping_clock.h"
#include "tape/running_operator.h"
#include "tape/saved_value.h"
#include "tape/stack.h"
#include "torch/backward_pass.h"
#include "torch/below_autograd.h"
#include "torch/kernel_clock.h"
#include "torch/version.h"

namespace reprise::detail {
namespace {

bool contains(const std::vector<int>& list, int element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

}  // namespace

Tape::Tape(std::shared_ptr<Decider> decider, TapeOptions options)
    : decider_(std::move(decider)),
      options_(std::move(options)),
      numerics_(Numerics::capture()),
      yielding_(options_.room ? std::make_unique<HeldSet>(options_.room) : nullptr),
      offloads_(options_.offloads.get()) {
  if (!options_.guide) return;
  schedule_ = options_.guide->first();
  drops_before_ = options_.room->drops;
  if (!options_.guide->measures()) return;
  recorder_ = std::make_unique<StepRecorder>(options_.room->memory, options_.clock);
}

Tape::~Tape() = default;

// A backward pass inside the scope is not part of the forward pass, unless it is itself to be
// differentiated (create_graph turns gradients on in it).
bool Tape::is_recording() const {
  return !sealed_ && (current_pass() == kNoPass || c10::GradMode::is_enabled());
}

void Tape::dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OperatorInfo& info = operator_info(op);
  if (!is_recording()) return info.call_in_mode(*stack);

  Node node;
  node.info = &info;
  node.grad_mode = c10::GradMode::is_enabled();
  torch::jit::Stack arguments(stack->end() - static_cast<int64_t>(info.arguments), stack->end());
  DrawLock draw_lock;
  std::unique_lock<DrawLock> drawing;
  std::optional<KernelClock> clock;
  std::optional<DroppingClock> own_time;
  std::optional<RunningOperator> running;
  std::optional<CallRoom> room;
  try {
    if (yielding_) running.emplace(info, arguments);
    {
      const std::lock_guard<std::recursive_mutex> lock(mutex_);
      look_for_released();
      if (offloads_) send_released();
      read_arguments(node, arguments);
      node.module = module_;
      if (!info.writes.empty() || !info.hidden_writes.empty()) plan_writes(node, arguments);
    }
    if (info.draws) {
      drawing = std::unique_lock<DrawLock>(draw_lock);
      const bool own = info.generator >= 0 && arguments[info.generator].isGenerator();
      node.rng =
          own ? RngState::of(arguments[info.generator].toGenerator()) : RngState::capture({});
      // Many operators may draw and do not (attention without dropout): share what has not moved.
      if (last_rng_ && last_rng_->equals(*node.rng)) node.rng = last_rng_;
      last_rng_ = node.rng;
    }
    // Before the operator begins: in it, an accelerator's memory can no longer be refused.
    if (yielding_ && CallRoom::in_force()) room.emplace(info, arguments, /*refuses=*/true);
    if (options_.measure || (room && room->is_new())) clock.emplace();
    if (yielding_) own_time.emplace();
    if (recorder_) recorder_->operator_begins();
    info.call_in_mode(*stack);
    if (recorder_) recorder_->operator_ends();
  } catch (...) {
    if (drawing) drawing.unlock();
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    note_failed_writes(node);
    throw;
  }
  const double milliseconds = clock ? clock->milliseconds() : 0;
  int64_t nanoseconds = own_time ? own_time->nanoseconds() : 0;
  if (room && clock) nanoseconds = static_cast<int64_t>(milliseconds * 1e6);
  room.reset();
  running.reset();

  if (drawing) drawing.unlock();

  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (sealed_) return;
  const auto id = static_cast<NodeId>(nodes_.size());
  node.invocation = invocations_[&info]++;
  if (options_.measure) {
    ModuleCounts& counts = module_counts_[node.module];
    ++counts.operators;
    counts.milliseconds += milliseconds;
  }
  nodes_.push_back(std::move(node));
  bool made_values = false;
  try {
    made_values = make_values(id, arguments, *stack);
  } catch (...) {
    forget_last_node();  // a rule of the user's has thrown
    throw;
  }
  if (made_values) {
    Node& made = nodes_[id];
    for (const ArgumentRef& argument : made.arguments) arguments[argument.index] = c10::IValue();
    made.constants = std::move(arguments);
    ++counts_.operators;
    if (yielding_) mirror_last_node(nanoseconds);
    follow_node(id);
  } else {
    nodes_.pop_back();  // a view, or an operator that only writes to externals
  }
  // Only now: an operator may save an argument before it fills it.
  if (!pending_.empty()) decide_pending();
}

// What it made is there, but nobody can make it again.
void Tape::forget_last_node() {
  const auto id = static_cast<NodeId>(nodes_.size()) - 1;
  const auto count = values_.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (values_[i].producer != id) continue;
    const int32_t storage = values_[i].storage;
    values_[i].producer = kNone;
    lose(static_cast<ValueId>(i));
    values_[i].held = c10::Storage();
    if (auto alive = storages_[storage].storage.lock()) {
      make_external(storage, c10::Storage(std::move(alive)));
    }
  }
  nodes_.pop_back();
}

bool Tape::make_values(NodeId id, const torch::jit::Stack& arguments,
                       const torch::jit::Stack& results) {
  const auto first = static_cast<ValueId>(values_.size());
  if (!nodes_[id].writes.empty()) note_writes(id, arguments);
  note_results(id, results);
  bool produced = false;
  for (auto value = first; value < static_cast<ValueId>(values_.size()); ++value) {
    produced |= values_[value].producer == id;
  }
  return produced;
}

void Tape::read_arguments(Node& node, const torch::jit::Stack& stack) {
  const OperatorInfo& info = *node.info;
  for (int i = 0; i < static_cast<int>(stack.size()); ++i) {
    const c10::IValue& argument = stack[i];
    ArgumentRef ref;
    ref.index = i;
    if (argument.isTensor()) {
      if (!argument.toTensor().defined()) continue;
    } else if (argument.isTensorList()) {
      ref.kind = ArgumentRef::Kind::list;
    } else if (is_optional_tensor_list(argument)) {
      ref.kind = ArgumentRef::Kind::optional_list;
    } else {
      continue;
    }
    const bool overwrites = info.fills_writes && info.writes_to(i);
    visit_tensors(argument, [&](const at::Tensor& tensor) {
      ref.tensors.push_back(refer_to(tensor, overwrites));
    });
    node.arguments.push_back(std::move(ref));
  }
  // What an argument showed of a storage may be news for the arguments before it.
  for (ArgumentRef& argument : node.arguments) {
    for (TensorRef& tensor : argument.tensors) {
      if (tensor.value == kNone) continue;
      const ValueId latest = storages_[values_[tensor.value].storage].versions.back();
      values_[latest].read = values_[latest].read || latest != tensor.value;
      tensor.value = latest;
    }
  }
}

// An operator that raised may have written already, or half.
void Tape::note_failed_writes(const Node& node) {
  for (const Write& write : node.writes) {
    const int32_t storage = values_[write.found].storage;
    if (auto alive = storages_[storage].storage.lock()) {
      make_external(storage, c10::Storage(std::move(alive)));
    }
  }
}

void Tape::plan_writes(Node& node, const torch::jit::Stack& stack) {
  const OperatorInfo& info = *node.info;
  const bool updates =
      !info.hidden_writes.empty() && (info.training < 0 || stack[info.training].toBool());
  for (ArgumentRef& argument : node.arguments) {
    const bool hidden = updates && contains(info.hidden_writes, argument.index);
    if (!hidden && !info.writes_to(argument.index)) continue;
    for (TensorRef& tensor : argument.tensors) {
      if (tensor.value == kNone) continue;
      const Value& found = values_[tensor.value];
      // Statistics kept outside are only updated, not used: the replay does without them.
      argument.hidden = hidden && found.producer == kNone;
      const bool overwritten =
          argument.hidden || (info.fills_writes && tensor.geometry->covers(found.bytes));
      const bool known = std::any_of(node.writes.begin(), node.writes.end(),
                                     [&](const Write& w) { return w.found == tensor.value; });
      if (known) continue;
      node.writes.push_back(
          {tensor.value, overwritten ? kNone : tensor.value, kNone, found.bytes, false});
    }
  }
  // Every argument that looks at a storage that is written to must see the same private copy.
  for (ArgumentRef& argument : node.arguments) {
    for (TensorRef& tensor : argument.tensors) {
      for (std::size_t w = 0; w < node.writes.size(); ++w) {
        if (tensor.value != kNone && node.writes[w].found == tensor.value) {
          tensor.write = static_cast<int32_t>(w);
        }
      }
    }
  }
  // An operator may fill a tensor from a view of the same storage: then what was there counts.
  for (std::size_t w = 0; w < node.writes.size(); ++w) {
    int looks = 0;
    for (const ArgumentRef& argument : node.arguments) {
      if (argument.hidden) continue;
      for (const TensorRef& tensor : argument.tensors) {
        looks += tensor.write == static_cast<int32_t>(w);
      }
    }
    if (looks > 1) node.writes[w].before = node.writes[w].found;
  }
  for (Write& write : node.writes) {
    Value& found = values_[write.found];
    if (yielding_ && found.producer != kNone) {
      mirror_values();
      write.inherits_yield = static_cast<bool>(yielding_->take(write.found));
    }
    if (!found.held) continue;
    // What is held is about to change. Values of the tape can be replayed, and the storage is held
    // on for what it becomes (a bias is added in place to a product that is worth keeping).
    // Externals are copied if an earlier operator, or a result of this one, depends on them.
    const bool external = found.producer == kNone;
    write.inherits_hold = !external;
    const bool wanted = found.read || (write.before != kNone && info.returns > info.writes.size());
    if (external && wanted) {
      const BelowAutograd below;
      found.held = clone_storage(found.held);
    } else if (external) {
      lose(write.found);
    }
    if (!external || !wanted) found.held = c10::Storage();
  }
}

void Tape::note_writes(NodeId id, const torch::jit::Stack& arguments) {
  Node& node = nodes_[id];
  for (Write& write : node.writes) {
    const Value found = values_[write.found];
    StorageRecord& record = storages_[found.storage];
    if (found.producer != kNone) {
      write.after = add_value(found.storage, id, kNone, write.bytes);
      values_[write.after].drawn = found.drawn || node.info->draws;
      if (write.inherits_hold) values_[write.after].held = c10::Storage(record.storage.lock());
      if (write.inherits_yield) hold_if_wanted(write.after, c10::Storage(record.storage.lock()));
    } else {
      write.after = add_value(found.storage, kNone, kNone, write.bytes);
      values_[write.after].held = c10::Storage(record.storage.lock());
    }
    // Mostly, autograd counts the write when the operator has returned to it.
    if (!record.counters.empty()) {
      Counter& counter = record.counters[record.last];
      counter.explained = counter.version.current_version() + (node.info->counts_writes ? 1 : 0);
    }
  }
  if (!node.info->resizes) return;
  for (const int index : node.info->writes) {
    visit_tensors(arguments[index], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !has_plain_storage(tensor)) return;
      int32_t storage = find_storage(tensor);
      if (storage == kNone) storage = add_storage(tensor);
      if (!is_unchanged_external(storage, tensor)) make_external(storage, tensor);
      if (Counter* counter = see_counter(storage, tensor)) {
        counter->explained = counter->version.current_version() + 1;
      }
    });
  }
}

void Tape::note_results(NodeId id, const torch::jit::Stack& stack) {
  Node& node = nodes_[id];
  int output = 0;
  const auto first = stack.end() - static_cast<int64_t>(node.info->returns);
  for (auto result = first; result != stack.end(); ++result) {
    visit_tensors(*result, [&](const at::Tensor& tensor) {
      TensorRef ref;
      if (tensor.defined() && has_plain_storage(tensor)) {
        int32_t storage = find_storage(tensor);
        if (storage == kNone) {
          storage = add_storage(tensor);
          Value& value = values_[add_value(storage, id, output, tensor.storage().nbytes())];
          value.garbage = node.info->leaves_garbage;
          value.drawn = node.info->draws;
          see_counter(storage, tensor);
        }
        ref.value = storages_[storage].versions.back();
        Value& value = values_[ref.value];
        if (value.producer == id) {
          ref.geometry.emplace(tensor);
          if (!value.garbage && decider_->hold(info_of(value, tensor))) {
            value.held = tensor.storage();
          }
        }
      }
      node.results.push_back(std::move(ref));
      ++output;
    });
  }
}

ValueInfo Tape::info_of(const Value& value, const at::Tensor& tensor) const {
  const Node& node = nodes_[value.producer];
  return {node.info->name,
          node.info->overload,
          node.invocation,
          value.output,
          static_cast<int64_t>(value.bytes),
          value.drawn,
          names_[value.name],
          names_[value.module],
          tensor};
}

int32_t Tape::intern(const std::string& text) {
  if (text.empty()) return 0;
  const auto found = name_ids_.find(text);
  if (found != name_ids_.end()) return found->second;
  const auto id = static_cast<int32_t>(names_.size());
  name_ids_.emplace(names_.emplace_back(text), id);
  return id;
}

void Tape::lose(ValueId value) {
  values_[value].lost = true;
  if (yielding_ && value < static_cast<ValueId>(yielding_->values())) yielding_->lose(value);
}

void Tape::note_module(const at::Tensor& argument) {
  const auto known = modules_.find(argument.storage().unsafeGetStorageImpl());
  if (known != modules_.end()) module_ = known->second;
}

TensorRef Tape::refer_to(const at::Tensor& tensor, bool overwrites) {
  TensorRef ref;
  if (!tensor.defined()) return ref;
  if (!has_plain_storage(tensor)) {
    ref.opaque = tensor.tensor_data();  // not the tensor: it may own the graph that owns the tape
    // In-place operators give a sparse tensor other parts, and leave those that are kept here
    // alone; but a part may be written to by itself, and its version does not tell.
    if (tensor.is_sparse() && tensor.is_cpu()) {
      ref.fingerprint = fingerprint_of(ref.opaque);
    } else if (!tensor.is_inference()) {
      ref.stamp.emplace(tensor);
    }
    return ref;
  }
  if (!modules_.empty() && !entered_) note_module(tensor);
  ref.geometry.emplace(tensor);
  ref.value = read(tensor, overwrites && ref.geometry->covers(tensor.storage().nbytes()));
  if (!overwrites) values_[ref.value].read = true;
  return ref;
}

ValueId Tape::read(const at::Tensor& tensor, bool overwrites) {
  int32_t storage = find_storage(tensor);
  if (storage == kNone) {
    storage = add_storage(tensor);
    make_external(storage, tensor);
  }
  if (Counter* counter = see_counter(storage, tensor)) {
    // Written to by somebody whom the tape has not seen: what it is now, nobody can replay.
    const uint32_t version = counter->version.current_version();
    if (version > counter->explained) make_external(storage, tensor);
    counter->explained = std::max(counter->explained, version);
  }
  // Uninitialised memory that is read all the same: a kernel filled it past the dispatcher.
  if (values_[storages_[storage].versions.back()].garbage && !overwrites) {
    make_external(storage, tensor);
  }
  return storages_[storage].versions.back();
}

// A counter that is new to the tape tells nothing of what was before.
Counter* Tape::see_counter(int32_t storage, const at::Tensor& tensor) {
  if (tensor.is_inference()) return nullptr;
  StorageRecord& record = storages_[storage];
  const c10::VariableVersion version = counter_of(tensor);
  for (record.last = 0; record.last < record.counters.size(); ++record.last) {
    Counter& counter = record.counters[record.last];
    if (same_counter(counter.version, version)) return &counter;
  }
  record.counters.push_back({version, version.current_version(), 0});
  return &record.counters.back();
}

/// After an operator that changes which storage a tensor looks at: whether it has only been pointed
/// to one from outside, whose contents are what they were.
bool Tape::is_unchanged_external(int32_t storage, const at::Tensor& tensor) const {
  const StorageRecord& record = storages_[storage];
  if (record.versions.empty()) return false;
  const Value& latest = values_[record.versions.back()];
  return latest.producer == kNone && latest.held && latest.bytes == tensor.storage().nbytes();
}

int32_t Tape::find_storage(const at::Tensor& tensor) const {
  const auto found = by_address_.find(tensor.storage().unsafeGetStorageImpl());
  return found == by_address_.end() ? kNone : found->second;
}

int32_t Tape::add_storage(const at::Tensor& tensor) {
  const auto index = static_cast<int32_t>(storages_.size());
  StorageRecord record{tensor.storage().getWeakStorageImpl(), {}, tensor.device(), {}, 0};
  storages_.push_back(std::move(record));
  by_address_.emplace(tensor.storage().unsafeGetStorageImpl(), index);
  return index;
}

ValueId Tape::add_value(int32_t storage, NodeId producer, int output, std::size_t bytes) {
  const auto id = static_cast<ValueId>(values_.size());
  Value value;
  value.storage = storage;
  value.producer = producer;
  value.output = output;
  value.bytes = bytes;
  value.module = module_;
  values_.push_back(std::move(value));
  storages_[storage].versions.push_back(id);
  return id;
}

// A tensor made in inference mode counts no versions: a copy is the only way to know what it was.
void Tape::make_external(int32_t storage, const at::Tensor& tensor) {
  if (!tensor.is_inference()) return make_external(storage, tensor.storage());
  const BelowAutograd below;
  make_external(storage, clone_storage(tensor.storage()));
}

void Tape::make_external(int32_t storage, const c10::Storage& contents) {
  StorageRecord& record = storages_[storage];
  if (!record.versions.empty()) {
    Value& before = values_[record.versions.back()];
    const bool copied =
        before.held && before.held.unsafeGetStorageImpl() != contents.unsafeGetStorageImpl();
    if (!copied) {
      if (before.producer == kNone) lose(record.versions.back());
      before.held = c10::Storage();
    }
    end_yielding(storage);
  }
  const ValueId value = add_value(storage, kNone, kNone, contents.nbytes());
  values_[value].held = contents;
}

std::shared_ptr<PackedTensor> Tape::pack(const at::Tensor& tensor) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  ++counts_.saved;
  auto saved = std::make_shared<SavedValue>(tensor);
  // A tape with a room tells by its end that the graph is gone.
  if (yielding_) saved->wait_for(shared_from_this());
  if (!is_recording() || !has_plain_storage(tensor)) {
    ++counts_.unknown;
    return saved;
  }
  if (find_storage(tensor) == kNone ||
      values_[read(tensor, /*overwrites=*/false)].producer == kNone) {
    ++counts_.external;
  } else {
    saved->wait_for(shared_from_this());
    pending_.push_back(saved);
  }
  return saved;
}

void Tape::seal() {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  try {
    decide_pending();
  } catch (...) {
    // Rules that contradict each other have said so before, and a destructor may not throw: what
    // is undecided is kept.
  }
  if (yielding_) mirror_values();
  std::vector<int32_t> unseen;  // and held: what it is now is what autograd would have kept
  for (StorageRecord& record : storages_) {
    bool explained = true;
    for (Counter& counter : record.counters) {
      counter.sealed = counter.version.current_version();
      explained &= counter.sealed <= counter.explained;
    }
    if (explained) continue;
    // Written to, unseen, after the last operator that looked at it.
    const ValueId latest = record.versions.back();
    if (yielding_ && yielding_->holds(latest)) {
      unseen.push_back(static_cast<int32_t>(&record - storages_.data()));
      continue;
    }
    if (values_[latest].producer == kNone) lose(latest);
    values_[latest].held = c10::Storage();
  }
  for (const int32_t storage : unseen) {
    make_external(storage, yielding_->get(storages_[storage].versions.back()));
  }
  record_forward();
  sealed_ = true;
  by_address_.clear();
  modules_.clear();
  invocations_.clear();
  last_rng_.reset();
  if (offloads_) end_sending();  // before what made it is forgotten
  count_readers();
  count_dropped();
  log_region(options_.label, dropped_.bytes(), /*preserves_rng=*/true);
}

TapeCounts Tape::counts() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  return counts_;
}

std::map<std::string, ModuleCounts> Tape::module_counts() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  std::map<std::string, ModuleCounts> counts;
  for (const auto& [module, count] : module_counts_) counts.emplace(names_[module], count);
  return counts;
}

}  // namespace reprise::detail
