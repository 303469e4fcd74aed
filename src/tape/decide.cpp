// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <utility>

#include <reprise/equality.h>

#include "meter/process_allocator.h"
#include "tape/products.h"
#include "tape/saved_value.h"
#include "tape/tape.h"
#include "torch/below_autograd.h"
#include "torch/warning.h"

// What becomes of saved tensors, and what is kept for the replays.

namespace reprise::detail {
namespace {

/// Results with bytes that their operator neither sets nor reads: they may differ.
bool is_scratch(const Node& node, int output) {
  return output == 3 && node.info->name == "aten::mkldnn_rnn_layer";  // its workspace
}

}  // namespace

void Tape::decide_pending() {
  std::vector<std::weak_ptr<SavedValue>> pending;
  pending.swap(pending_);
  for (const auto& weak : pending) {
    if (const auto saved = weak.lock()) decide(*saved);
  }
}

void Tape::decide(SavedValue& saved) {
  const BelowAutograd below;
  const at::Tensor tensor = saved.kept();
  const ValueId id = read(tensor, /*overwrites=*/false);
  Value& value = values_[id];
  if (value.producer == kNone) {  // changed meanwhile by somebody unseen
    ++counts_.unknown;
    return;
  }
  if (options_.measure && !std::exchange(value.counted, true)) {
    module_counts_[value.module].saved_bytes += static_cast<int64_t>(value.bytes);
  }
  storages_[value.storage].dtype = tensor.scalar_type();
  const ValueInfo info = info_of(value, tensor);
  if (!decider_->trust(info)) {
    ++counts_.unknown;
    value.held = tensor.storage();
    return;
  }
  // Another tensor on a storage that is to be sent goes with it: kept, it would hold it back.
  const bool leaves = storages_[value.storage].offloading && !value.encoded;
  Decision decision = leaves                              ? Decision::offload
                      : value.is_kept() && !value.encoded ? Decision::keep
                                                          : decider_->decide(info);
  if (decision == Decision::yield && options_.guide) {
    saved_at_.emplace(id, static_cast<NodeId>(nodes_.size()) - 1);
    decision = decide_by_schedule(id, tensor);
  }
  if (decision == Decision::encode && !value.encoded) encode(id, tensor, decision);
  if (decision == Decision::keep) {
    ++counts_.kept;
    value.held = tensor.storage();
    return;
  }
  if (decision == Decision::offload && !offload(id, tensor)) {
    ++counts_.kept;
    value.held = tensor.storage();
    return;
  }
  const int32_t storage = value.storage;
  ++storages_[storage].tickets;
  if (decision == Decision::yield) {
    ++counts_.yielding;
    hold_if_wanted(id, tensor.storage());
  } else if (decision == Decision::offload) {
    ++counts_.offloaded;
  } else {
    ++(decision == Decision::encode ? counts_.encoded : counts_.recomputed);
  }
  tickets_.push_back({storage, kNone, Geometry(tensor)});
  tickets_.back().saved_by = static_cast<NodeId>(nodes_.size()) - 1;
  // What a store brings back is checked there.
  saved.exchange_for(tickets_.size() - 1, options_.audit && decision != Decision::offload);
}

/// What has no smaller form stays as it is: `decision` says so.
void Tape::encode(ValueId id, const at::Tensor& tensor, Decision& decision) {
  const Gauge::Pause pause(process_allocator().gauge());  // smaller forms are the CPU's
  if (auto encoded = Encoded::encode(tensor)) {
    values_[id].encoded = std::make_shared<const Encoded>(std::move(*encoded));
    if (!yielding_) return;
    mirror_values();
    yielding_->keep(id, true);
  } else {
    decision = yielding_ ? Decision::yield : Decision::keep;
  }
}

at::Tensor Tape::unpack(const at::Tensor& kept, const std::optional<std::size_t>& ticket) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (!ticket) {
    if (offloads_ && !yielding_ && sealed_) look_ahead_in_store();
    return kept;
  }
  const at::Tensor replayed = bring_back(*ticket);
  if (!kept.defined()) return replayed;
  const BelowAutograd below;
  if (bit_equal(replayed, kept)) return replayed;
  const Value& value = values_[storages_[tickets_[*ticket].storage].versions.back()];
  if (value.producer == kNone) return kept;
  const Node& node = nodes_[value.producer];
  if (is_scratch(node, value.output)) return replayed;
  warn("reprise: a replay of " + describe(node) +
       " gave other bits than the forward pass; the value is kept from now on. Something that is "
       "not an operator wrote to it or to what it is made from. hint: register that kernel as an "
       "operator, or call reprise::keep() on the tensor");
  decider_->distrust(info_of(value, kept));
  return kept;
}

bool Tape::name(const at::Tensor& tensor, const std::string& name) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (sealed_ || !has_plain_storage(tensor)) return false;
  Value& value = values_[read(tensor, /*overwrites=*/false)];
  if (value.producer == kNone) return false;
  value.name = intern(name);
  const bool hold = decider_->hold(info_of(value, tensor));
  if (hold) value.held = tensor.storage();
  decide_pending();
  if (hold) drop_idle_holds();
  return true;
}

bool Tape::keep(const at::Tensor& tensor) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (sealed_ || !has_plain_storage(tensor)) return false;
  const ValueId id = read(tensor, /*overwrites=*/false);
  if (values_[id].producer == kNone) return false;
  // From now on it is what it is, not what operators made of it.
  make_external(values_[id].storage, tensor.storage());
  return true;
}

void Tape::enter_module(const std::string& path) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  module_ = intern(path);
  entered_ = !path.empty();
}

void Tape::know_module(const c10::Storage& storage, const std::string& path) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  modules_.emplace(storage.unsafeGetStorageImpl(), intern(path));
}

// A value is held because its operator is dear, before anybody knows who will need it. When what
// came of it is held too, and the program has let go of it, nobody will.
void Tape::drop_idle_holds() {
  const auto end = static_cast<NodeId>(nodes_.size());
  std::vector<bool> wanted(values_.size(), false);
  for (const Ticket& ticket : tickets_) {
    if (ticket.alive) wanted[storages_[ticket.storage].versions.back()] = true;
  }
  for (NodeId id = end - 1; id >= settled_; --id) {
    const Node& node = nodes_[id];
    bool runs = false;
    for_each_product(node, id, values_, [&](ValueId product) {
      Value& value = values_[product];
      const auto alive = storages_[value.storage].storage.lock();
      const bool in_use = alive && alive.use_count() > (value.held ? 2U : 1U);
      wanted[product] = wanted[product] || in_use;
      if (!wanted[product]) value.held = c10::Storage();
      runs |= wanted[product] && !value.is_kept();
    });
    if (runs) for_each_input(node, [&](ValueId input) { wanted[input] = true; });
  }
  settled_ = end;
}

}  // namespace reprise::detail
