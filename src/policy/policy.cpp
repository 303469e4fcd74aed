// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <utility>

#include <reprise/error.h>
#include <reprise/policy.h>

#include "policy/rules.h"

namespace reprise {
namespace {

const char* name_of(Action action) {
  switch (action) {
    case Action::keep:
      return "keep";
    case Action::encode:
      return "encode";
    case Action::recompute:
      return "recompute";
    case Action::offload:
      return "offload";
  }
  return "";
}

}  // namespace

Policy::Rules::Learnt& Policy::Rules::learnt(const std::string& scope) const {
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, Learnt>;
  std::string key = scope + "; otherwise " + name_of(fallback());
  for (const Rule& rule : list) key += std::string("; ") + name_of(rule.action) + ' ' + rule.label;
  if (destination) {
    const OffloadOptions& options = destination->options;
    for (const double number : {static_cast<double>(options.min_bytes()),
                                static_cast<double>(options.keep_last()), options.fraction()}) {
      key += "; " + std::to_string(number);
    }
  }
  const std::lock_guard<std::mutex> lock(mutex);
  return all[key];
}

Action Policy::Rules::fallback() const {
  if (otherwise) return *otherwise;
  if (list.empty()) return Action::recompute;
  const Action last = list.back().action;
  return last == Action::recompute || last == Action::offload ? Action::keep : Action::recompute;
}

Policy::Rules::Verdict Policy::Rules::judge(const ValueView& value, std::vector<bool>* used) const {
  const Rule* must = nullptr;
  const Rule* prefer = nullptr;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Rule& rule = list[i];
    if (!rule.matches(value)) continue;
    if (used) (*used)[i] = true;
    if (rule.strength == Strength::prefer) {
      if (!prefer) prefer = &rule;
    } else if (!must) {
      must = &rule;
    } else if (must->action != rule.action) {
      throw UsageError("two rules must decide on one value, a result of " + std::string(value.op) +
                           ": '" + must->label + "' wants to " + name_of(must->action) + " it, '" +
                           rule.label + "' to " + name_of(rule.action) + " it",
                       "make one of them Strength::prefer, or let them match different values");
    }
  }
  if (must) return {must->action, must};
  if (prefer) return {prefer->action, prefer};
  return {fallback(), nullptr};
}

Policy Policy::rule(Predicate predicate, Action action, const std::string& label,
                    Strength strength) {
  auto rules = std::make_shared<Rules>();
  rules->list.push_back({std::move(predicate), action, strength, label});
  return Policy(std::move(rules));
}

Policy Policy::where(Predicate predicate, Action action, const std::string& label,
                     Strength strength) {
  if (!predicate) throw UsageError("a rule's predicate is empty", "give a function");
  return rule(std::move(predicate), action, label, strength);
}

Policy Policy::then(const Policy& next) const {
  auto rules = std::make_shared<Rules>();
  rules->list = rules_->list;
  rules->list.insert(rules->list.end(), next.rules_->list.begin(), next.rules_->list.end());
  rules->otherwise = next.rules_->otherwise ? next.rules_->otherwise : rules_->otherwise;
  rules->destination = next.rules_->destination ? next.rules_->destination : rules_->destination;
  rules->audit = rules_->audit && next.rules_->audit;
  return Policy(std::move(rules));
}

Policy Policy::offload(const Store& store, const OffloadOptions& options) {
  return where([](const ValueView&) { return true; }, Action::offload, "offload")
      .into(store, options);
}

Policy Policy::into(const Store& store, const OffloadOptions& options) const {
  auto rules = std::make_shared<Rules>(*rules_);
  rules->destination = {store, options};
  return Policy(std::move(rules));
}

Policy Policy::otherwise(Action action) const {
  auto rules = std::make_shared<Rules>(*rules_);
  rules->otherwise = action;
  return Policy(std::move(rules));
}

Policy Policy::audit(bool on) const {
  auto rules = std::make_shared<Rules>(*rules_);
  rules->audit = on;
  return Policy(std::move(rules));
}

}  // namespace reprise
