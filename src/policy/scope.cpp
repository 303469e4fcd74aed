// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>

#include <reprise/error.h>
#include <reprise/meta_scope.h>
#include <reprise/scope.h>

#include "policy/module_paths.h"
#include "policy/rules.h"
#include "tape/current.h"
#include "torch/warning.h"

namespace reprise {
namespace {

using detail::Decision;
using detail::ValueInfo;

int64_t layer_of(const std::string& path) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t begin = 0; begin < path.size();) {
    std::size_t end = path.find('.', begin);
    if (end == std::string::npos) end = path.size();
    const bool number = end > begin && end - begin < 18 &&
                        std::all_of(path.begin() + static_cast<int64_t>(begin),
                                    path.begin() + static_cast<int64_t>(end), digit);
    if (number) return std::stoll(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return -1;
}

/// A policy, as the tape's decider. Called under the tape's lock.
class Applied final : public detail::Decider {
 public:
  Applied(Policy policy, Policy::Rules::Learnt& learnt)
      : policy_(std::move(policy)),
        rules_(policy_.rules()),
        learnt_(learnt),
        used_(rules_.list.size(), false) {}

  Decision decide(const ValueInfo& value) override {
    switch (judge(value).action) {
      case Action::keep:
        return Decision::keep;
      case Action::encode:
        return Decision::encode;
      case Action::recompute:
        return Decision::recompute;
      case Action::offload:
        return Decision::offload;
    }
    return Decision::keep;
  }

  bool hold(const ValueInfo& value) override {
    const Policy::Rules::Verdict verdict = judge(value);
    return (verdict.rule && verdict.action == Action::keep) || !trust(value);
  }

  bool trust(const ValueInfo& value) override {
    const std::lock_guard<std::mutex> lock(learnt_.mutex);
    return learnt_.distrusted.empty() || !learnt_.distrusted.count(key(value));
  }

  void distrust(const ValueInfo& value) override {
    const std::lock_guard<std::mutex> lock(learnt_.mutex);
    learnt_.distrusted.insert(key(value));
  }

  bool means_to_drop() const {
    return rules_.fallback() != Action::keep ||
           std::any_of(rules_.list.begin(), rules_.list.end(),
                       [](const Rule& rule) { return rule.action != Action::keep; });
  }

  bool means_to_offload() const {
    return rules_.fallback() == Action::offload ||
           std::any_of(rules_.list.begin(), rules_.list.end(),
                       [](const Rule& rule) { return rule.action == Action::offload; });
  }

  /// Null if nothing is to be offloaded. Throws UsageError without a place for it.
  std::shared_ptr<detail::Offloads> offloads() const {
    if (!means_to_offload()) return nullptr;
    if (!rules_.destination) {
      throw UsageError("a policy offloads, but not to any store",
                       "say where to: policy.into(DiskStore(\"/scratch\"))");
    }
    if (MetaScope::active()) return nullptr;  // there are no bytes
    return std::make_shared<detail::Offloads>(*rules_.destination, learnt_.fetch_order);
  }

  std::vector<std::string> unused_rules() const {
    std::vector<std::string> unused;
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i] && !rules_.list[i].quiet) unused.push_back(rules_.list[i].label);
    }
    return unused;
  }

 private:
  static std::string key(const ValueInfo& value) {
    return value.op + '.' + value.overload + '#' + std::to_string(value.invocation) + '/' +
           std::to_string(value.output);
  }

  Policy::Rules::Verdict judge(const ValueInfo& value) {
    ValueView view;
    view.op = value.op;
    view.overload = value.overload;
    view.invocation = value.invocation;
    view.output = value.output;
    view.sizes = value.tensor.sizes();
    view.dtype = value.tensor.scalar_type();
    view.device = value.tensor.device();
    view.bytes = value.bytes;
    view.drawn = value.drawn;
    view.name = value.name;
    view.module = value.module;
    if (&value.module != module_) {
      module_ = &value.module;
      layer_ = layer_of(value.module);
    }
    view.layer = layer_;
    return rules_.judge(view, &used_);
  }

  const Policy policy_;  // a tape, and with it this, may outlive the scope
  const Policy::Rules& rules_;
  Policy::Rules::Learnt& learnt_;
  std::vector<bool> used_;
  const std::string* module_ = nullptr;
  int64_t layer_ = -1;
};

}  // namespace

struct Scope::State {
  State(const Policy& policy, const ScopeOptions& options)
      : learnt(policy.rules().learnt(options.name())),
        decider(std::make_shared<Applied>(policy, learnt)),
        offloads(decider->offloads()),
        tape(std::make_shared<detail::Tape>(
            decider, detail::TapeOptions{.audit = policy.rules().audit && !MetaScope::active() &&
                                                  !learnt.audited.exchange(true),
                                         .measure = options.measure(),
                                         .label = options.name(),
                                         .offloads = offloads})) {
    tell_modules(options.modules());
    recording.emplace(tape);
  }

  void tell_modules(const ModulePaths& paths) const {
    for (const ModulePaths::Entries::Entry& entry : paths.entries().list) {
      const auto tensor = entry.tensor.lock();
      if (tensor && tensor->has_storage()) tape->know_module(tensor->storage(), entry.module);
    }
  }

  Policy::Rules::Learnt& learnt;
  const std::shared_ptr<Applied> decider;
  const std::shared_ptr<detail::Offloads> offloads;  // may be null
  const std::shared_ptr<detail::Tape> tape;
  std::optional<detail::Recording> recording;
  const std::thread::id thread = std::this_thread::get_id();
};

Scope::Scope(const Policy& policy, const ScopeOptions& options)
    : state_(std::make_unique<State>(policy, options)) {}

Scope::~Scope() {
  if (state_->recording && state_->thread != std::this_thread::get_id()) {
    // Taking another thread's hooks off this one would crash: better one that records for ever.
    detail::warn("reprise: a scope was destroyed on another thread than the one that it records");
    (void)state_.release();
    return;
  }
  end();
}

void Scope::end() {
  if (!state_->recording) return;
  if (state_->thread != std::this_thread::get_id()) {
    throw UsageError("a scope was ended on another thread than the one that it records",
                     "end it where it began");
  }
  if (detail::current_tapes().back() != state_->tape) {
    throw UsageError("a scope was ended before one that began inside of it",
                     "end the inner one first");
  }
  state_->recording.reset();
  const auto unused = state_->decider->unused_rules();
  const detail::TapeCounts counts = state_->tape->counts();
  const bool idle = state_->decider->means_to_drop() && counts.kept > 0 &&
                    counts.encoded + counts.recomputed + counts.offloaded == 0;
  OffloadSummary offload;
  if (state_->offloads) offload = state_->tape->offload_summary();
  const bool moves_nothing = offload.seen > 0 && offload.moved == 0;
  if ((unused.empty() && !idle && !moves_nothing) || state_->learnt.warned.exchange(true)) return;
  for (const std::string& label : unused) {
    detail::warn("reprise: the rule '" + label + "' matched no value in this scope");
  }
  if (idle && !moves_nothing) {
    detail::warn("reprise: a scope kept all " + std::to_string(counts.kept) +
                 " tensors that its policy decided on: it saves nothing");
  }
  if (moves_nothing) {
    std::ostringstream text;
    text << offload;
    detail::warn("reprise: a scope offloads nothing to its store: " +
                 text.str().substr(0, text.str().find(';')) +
                 ". hint: lower OffloadOptions::min_bytes(), let go of what the forward pass does "
                 "not need, or give the store more room");
  }
}

ScopeSummary Scope::summary() const {
  const detail::TapeCounts counts = state_->tape->counts();
  ScopeSummary summary;
  summary.operators = counts.operators;
  summary.saved = counts.saved;
  summary.kept = counts.kept;
  summary.encoded = counts.encoded;
  summary.recomputed = counts.recomputed;
  summary.offloaded = counts.offloaded;
  if (state_->offloads) summary.offload = state_->tape->offload_summary();
  summary.external = counts.external;
  summary.unknown = counts.unknown;
  summary.replays = counts.replays;
  summary.unused_rules = state_->decider->unused_rules();
  for (const auto& [module, cost] : state_->tape->module_counts()) {
    summary.modules.push_back({module, cost.operators, cost.milliseconds, cost.saved_bytes});
  }
  return summary;
}

at::Tensor named(const std::string& name, const at::Tensor& tensor) {
  for (const auto& tape : detail::current_tapes()) tape->name(tensor, name);
  return tensor;
}

at::Tensor boundary(const at::Tensor& tensor, const std::string& kind) {
  return named(kind, tensor);
}

at::Tensor keep(const at::Tensor& tensor) {
  for (const auto& tape : detail::current_tapes()) tape->keep(tensor);
  return tensor;
}

ModuleScope::ModuleScope(const std::string& name) : outer_length_(detail::current_module().size()) {
  std::string& path = detail::current_module();
  path += (path.empty() ? "" : ".") + name;
  ++detail::module_changes();
  for (const auto& tape : detail::current_tapes()) tape->enter_module(path);
}

ModuleScope::~ModuleScope() {
  std::string& path = detail::current_module();
  path.resize(outer_length_);
  ++detail::module_changes();
  for (const auto& tape : detail::current_tapes()) tape->enter_module(path);
}

}  // namespace reprise
