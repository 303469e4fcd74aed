// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include <reprise/error.h>

#include "meter/call_room.h"
#include "meter/content_hash.h"
#include "meter/region_log.h"
#include "meter/replay_clock.h"
#include "tape/locals.h"
#include "tape/products.h"
#include "tape/running_operator.h"
#include "tape/stack.h"
#include "tape/tape.h"
#include "torch/backward_pass.h"
#include "torch/below_autograd.h"

// Bringing values back: the operators between what is at hand and what is asked for, in the order
// in which they ran, each once; what they make is freed at its last use.

namespace reprise::detail {
namespace {

c10::List<std::optional<at::Tensor>> optional_list(const std::vector<at::Tensor>& tensors) {
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& tensor : tensors) {
    list.push_back(tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt);
  }
  return list;
}

}  // namespace

at::Tensor Tape::bring_back(std::size_t index) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (yielding_) return bring_back_lazily(index);
  Ticket& ticket = tickets_[index];
  const int64_t pass = current_pass();
  if (is_group(pass) && ticket.served_in == pass) {
    throw Error(
        "two backward passes of one execution group want the same saved tensor, of " +
            (options_.label.empty() ? "a scope" : "'" + options_.label + "'"),
        "let the passes of a group want different tensors, or run one of them outside of it");
  }
  if (sealed_ && pass != kNoPass && pass != pass_) count_waiting(pass);
  // Before the scope has ended, a backward pass inside it: what is latest now is what is asked for.
  const ValueId value = sealed_ ? ticket.value : storages_[ticket.storage].versions.back();

  const BelowAutograd below;
  c10::Storage storage;
  // What was to go to a store and stayed is what autograd would have kept, whoever has changed it.
  if (storages_[ticket.storage].offloading) storage = values_[value].held;
  if (!storage) storage = available(value);
  if (!storage) storage = alive_elsewhere(value);
  if (!storage) {
    const bool look = !savings_known_ && dropped_.memory_is_at_its_peak();
    storage = replay(value, pass);
    if (look && counts_waiting(pass)) look_at_savings(value);
    savings_known_ = savings_known_ || counts_waiting(pass);
  }
  if (counts_waiting(pass) && ticket.served_in != pass) {
    ticket.served_in = pass;
    drop_waiting(value);
  }
  return ticket.geometry.on(storage);
}

c10::Storage Tape::available(ValueId id) {
  Value& value = values_[id];
  if (value.cached) return value.cached;
  if (yielding_) {
    if (c10::Storage held = yielding_->get(id)) {
      if (!changed_since_seal(storages_[value.storage])) return held;
      yielding_->take(id);  // for what is made from it, it must be what it was
    }
  }
  if (value.held) {
    const StorageRecord& record = storages_[value.storage];
    if (record.versions.back() == id && changed_since_seal(record)) {
      throw Error("a tensor that a replay reads was changed in place after the forward pass: " +
                      std::to_string(value.bytes) + " bytes, " +
                      (value.producer == kNone ? "made outside of the scope"
                                               : "made by " + describe(nodes_[value.producer])),
                  "change it after the backward pass, or out of place");
    }
    return value.held;
  }
  if (value.slot != kNone) {
    if (c10::Storage storage = bring_from_store(id)) return storage;
  }
  if (value.encoded) {
    const c10::Storage storage = value.encoded->decode().storage();
    if (value.waiting > 1) value.cached = storage;
    return storage;
  }
  if (value.lost) {
    throw Error(
        "a tensor from outside of the scope was overwritten in the forward pass by "
        "something that is not an operator, and a replay needs what was there before",
        "register the kernel as an operator, or call keep() on what depends on it");
  }
  return {};
}

bool Tape::changed_since_seal(const StorageRecord& record) const {
  return sealed_ &&
         std::any_of(record.counters.begin(), record.counters.end(),
                     [](const Counter& c) { return c.version.current_version() != c.sealed; });
}

// Somebody else may still have the tensor that was saved: then there is nothing to replay. Only
// what is asked for itself is taken this way: its storage is what autograd would have kept, whereas
// what lies between may have been changed through .data without anybody noticing. (An audit has
// kept everything, and wants to see the replay.)
c10::Storage Tape::alive_elsewhere(ValueId id) const {
  const Value& value = values_[id];
  const StorageRecord& record = storages_[value.storage];
  const bool latest = record.versions.back() == id;
  if (options_.audit || !latest || value.producer == kNone || changed_since_seal(record)) return {};
  auto alive = record.storage.lock();
  if (!alive || alive->nbytes() != value.bytes) return {};
  return c10::Storage(std::move(alive));
}

std::vector<NodeId> Tape::closure(ValueId target, Locals& locals) {
  std::vector<NodeId> nodes;
  std::vector<ValueId> open{target};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    Local& local = locals[id];
    if (local.reads++ > 0) continue;
    local.storage = available(id);
    if (local.storage) continue;
    const NodeId producer = values_[id].producer;
    TORCH_INTERNAL_ASSERT(producer != kNone, "reprise: a value without contents or producer");
    if (std::find(nodes.begin(), nodes.end(), producer) != nodes.end()) continue;
    nodes.push_back(producer);
    for_each_input(nodes_[producer], [&](ValueId input) { open.push_back(input); });
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

c10::Storage Tape::replay(ValueId target, int64_t pass) {
  Locals locals;
  const std::vector<NodeId> nodes = closure(target, locals);
  ReplayClock clock;
  clock.count_operators(static_cast<int64_t>(nodes.size()));
  const NumericsReplay numerics(numerics_);
  for (const NodeId id : nodes) {
    Node& node = nodes_[id];
    run_again(node, id, locals, pass);
    for_each_input(node, [&](ValueId input) {
      Local& local = locals[input];
      if (--local.reads == 0) local.storage = c10::Storage();
    });
    if (counts_waiting(pass) && node.ran_in != pass) {
      node.ran_in = pass;
      for_each_input(node, [&](ValueId input) { drop_waiting(input); });
    }
  }
  log_replay(options_.label, clock.milliseconds());
  return locals[target].storage;
}

void Tape::run_again(const Node& node, NodeId id, Locals& locals, int64_t pass) {
  TORCH_INTERNAL_ASSERT(node.needed, "reprise: to replay ", describe(node), ", long forgotten");
  c10::SmallVector<c10::Storage, 1> written;
  for (const Write& write : node.writes) written.push_back(place_to_write(write, locals));

  const auto tensor_of = [&](const TensorRef& ref) -> at::Tensor {
    if (ref.value == kNone) {
      check_opaque(node, ref);
      return ref.opaque;
    }
    at::Tensor tensor =
        ref.geometry->on(ref.write == kNone ? locals[ref.value].storage : written[ref.write]);
    if (ref.geometry->requires_grad) tensor.set_requires_grad(true);  // some kernels look at it
    return tensor;
  };
  torch::jit::Stack stack = node.constants;
  for (const ArgumentRef& argument : node.arguments) {
    if (argument.hidden) continue;
    std::vector<at::Tensor> tensors;
    for (const TensorRef& ref : argument.tensors) tensors.push_back(tensor_of(ref));
    c10::IValue& slot = stack[argument.index];
    switch (argument.kind) {
      case ArgumentRef::Kind::tensor:
        slot = std::move(tensors[0]);
        break;
      case ArgumentRef::Kind::list:
        slot = std::move(tensors);
        break;
      case ArgumentRef::Kind::optional_list:
        slot = optional_list(tensors);
        break;
    }
  }
  {
    std::unique_lock<std::recursive_mutex> drawing;
    std::optional<RngReplay> rng;
    if (node.rng) {
      drawing = std::unique_lock<std::recursive_mutex>(draw_mutex());
      rng.emplace(*node.rng);
    }
    const c10::AutoGradMode grad(node.grad_mode);
    const RunningOperator running(*node.info, stack);
    std::optional<CallRoom> room;
    if (yielding_ && CallRoom::in_force()) room.emplace(*node.info, stack, /*refuses=*/true);
    node.info->call(stack);
  }
  ++counts_.replays;

  const auto made = [&](ValueId product, const c10::Storage& storage) {
    if (values_[product].slot != kNone) offloads_->check(values_[product].slot, storage);
    if (const auto local = locals.find(product); local != locals.end()) {
      local->second.storage = storage;
      local->second.made_here = true;
    }
    if (moving_) return;
    if (yielding_) return hold_if_wanted(product, storage);
    Value& value = values_[product];
    if (counts_waiting(pass) && value.waiting > 0 && !value.is_kept()) value.cached = storage;
  };
  for (std::size_t w = 0; w < node.writes.size(); ++w) {
    const ValueId after = node.writes[w].after;
    if (values_[after].producer == id) made(after, written[w]);
  }
  auto result = node.results.begin();
  for (const c10::IValue& value : stack) {
    visit_tensors(value, [&](const at::Tensor& tensor) {
      const TensorRef& ref = *result++;
      if (!ref.geometry) return;
      check_geometry(node, *ref.geometry, tensor);
      const bool in_place = std::any_of(node.writes.begin(), node.writes.end(),
                                        [&](const Write& w) { return w.after == ref.value; });
      if (!in_place) made(ref.value, tensor.storage());
    });
  }
}

// A private copy, or the contents themselves when this is the last to read them.
c10::Storage Tape::place_to_write(const Write& write, Locals& locals) {
  if (write.before == kNone) {
    return empty_like_storage(write.bytes, storages_[values_[write.found].storage].device);
  }
  Local& local = locals[write.before];
  Value& value = values_[write.before];
  const bool last = local.made_here && local.reads == 1 && value.waiting <= 1;
  if (!last) return clone_storage(local.storage);
  value.cached = c10::Storage();
  // Somebody may hold what was brought back earlier in this pass.
  return local.storage.use_count() == 1 ? std::move(local.storage) : clone_storage(local.storage);
}

uint64_t Tape::fingerprint_of(const at::Tensor& sparse) {
  const BelowAutograd below;
  return content_hash(sparse._indices()) * 31 + content_hash(sparse._values());
}

void Tape::check_opaque(const Node& node, const TensorRef& ref) const {
  const bool changed = ref.fingerprint ? *ref.fingerprint != fingerprint_of(ref.opaque)
                                       : ref.stamp && ref.stamp->changed();
  if (!changed) return;
  throw Error(
      "a tensor without an ordinary storage (sparse, quantised, nested) that the replay of " +
          describe(node) + " reads was changed in place",
      "change it after the backward pass, or out of place");
}

void Tape::check_geometry(const Node& node, const Geometry& expected,
                          const at::Tensor& tensor) const {
  if (tensor.defined() && expected.matches(tensor)) return;
  throw RecomputeMismatch(
      "the replay of " + describe(node) + " gave " +
          (tensor.defined() ? Geometry(tensor).str() : std::string("nothing")) + " where " +
          expected.str() + " was made in the forward pass",
      "an operator must make the same from the same arguments; look for global settings that "
      "changed between the forward and the backward pass");
}

// Waiting is counted for one backward pass at a time, and only once the scope has ended.
bool Tape::counts_waiting(int64_t pass) const {
  return sealed_ && pass != kNoPass && pass == pass_;
}

std::string Tape::describe(const Node& node) const {
  const std::string& module = names_[node.module];
  return node.info->full_name() + ", call " + std::to_string(node.invocation + 1) + " in " +
         (options_.label.empty() ? "the scope" : "'" + options_.label + "'") +
         (module.empty() ? "" : ", in module " + module);
}

}  // namespace reprise::detail
