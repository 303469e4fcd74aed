// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <map>
#include <utility>

#include <reprise/error.h>
#include <reprise/policy.h>
#include <reprise/suggest.h>

#include "policy/rules.h"
#include "torch/operator_names.h"

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
  }
  return "";
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// An operator with one overload or all of them.
struct OperatorPattern {
  std::string name;
  std::optional<std::string> overload;

  bool matches(const ValueView& value) const {
    return value.op == name && (!overload || value.overload == *overload);
  }
};

OperatorPattern parse_operator(const std::string& text) {
  const std::string full = text.find("::") == std::string::npos ? "aten::" + text : text;
  if (!detail::overloads_of(full).empty()) return {full, std::nullopt};
  const std::size_t dot = full.rfind('.');
  if (dot != std::string::npos) {
    const std::string name = full.substr(0, dot);
    const std::string overload = full.substr(dot + 1) == "default" ? "" : full.substr(dot + 1);
    auto overloads = detail::overloads_of(name);
    if (std::find(overloads.begin(), overloads.end(), overload) != overloads.end()) {
      return {name, overload};
    }
    if (!overloads.empty()) {
      std::erase(overloads, "");
      throw UsageError(
          "operator '" + name + "' has no overload '" + overload + "'",
          "its overloads are: " + list_of(overloads) + " ('default' is the nameless one)");
    }
  }
  auto near = nearest_words(full, detail::operator_names());
  if (near.size() > 3) near.resize(3);
  throw UsageError("no operator '" + full + "' is registered",
                   near.empty() ? "give a name such as 'aten::mm' or 'aten::mul.Tensor'"
                                : "did you mean " + list_of(near) + "?");
}

Policy::Predicate any_operator(const std::vector<std::string>& ops) {
  std::vector<OperatorPattern> patterns;
  for (const std::string& op : ops) patterns.push_back(parse_operator(op));
  return [patterns = std::move(patterns)](const ValueView& value) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const OperatorPattern& p) { return p.matches(value); });
  };
}

Policy::Predicate any_name(const std::vector<std::string>& names) {
  return [names](const ValueView& value) {
    return !value.name.empty() && std::find(names.begin(), names.end(), value.name) != names.end();
  };
}

const std::vector<std::string>& products() {
  static const std::vector<std::string> ops{"aten::mm",
                                            "aten::addmm",
                                            "aten::bmm",
                                            "aten::baddbmm",
                                            "aten::convolution",
                                            "aten::_scaled_dot_product_flash_attention_for_cpu",
                                            "aten::_scaled_dot_product_flash_attention",
                                            "aten::_scaled_dot_product_efficient_attention",
                                            "aten::_scaled_dot_product_cudnn_attention",
                                            "aten::mkldnn_rnn_layer",
                                            "aten::linear"};
  return ops;
}

}  // namespace

Policy::Rules::Learnt& Policy::Rules::learnt() const {
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, Learnt>;
  std::string key = name_of(fallback());
  for (const Rule& rule : list) key += std::string("; ") + name_of(rule.action) + ' ' + rule.label;
  const std::lock_guard<std::mutex> lock(mutex);
  return all[key];
}

Action Policy::Rules::fallback() const {
  if (otherwise) return *otherwise;
  return !list.empty() && list.back().action == Action::recompute ? Action::keep
                                                                  : Action::recompute;
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

Policy Policy::keep_ops(const std::vector<std::string>& ops, Strength strength) {
  return rule(any_operator(ops), Action::keep, "keep_ops(" + list_of(ops) + ")", strength);
}

Policy Policy::encode_ops(const std::vector<std::string>& ops, Strength strength) {
  return rule(any_operator(ops), Action::encode, "encode_ops(" + list_of(ops) + ")", strength);
}

Policy Policy::recompute_ops(const std::vector<std::string>& ops, Strength strength) {
  return rule(any_operator(ops), Action::recompute, "recompute_ops(" + list_of(ops) + ")",
              strength);
}

Policy Policy::keep_names(const std::vector<std::string>& names, Strength strength) {
  return rule(any_name(names), Action::keep, "keep_names(" + list_of(names) + ")", strength);
}

Policy Policy::recompute_names(const std::vector<std::string>& names, Strength strength) {
  return rule(any_name(names), Action::recompute, "recompute_names(" + list_of(names) + ")",
              strength);
}

Policy Policy::layers(int64_t begin, int64_t end, Action action, Strength strength) {
  if (begin < 0 || end <= begin) {
    throw UsageError("layers [" + std::to_string(begin) + ", " + std::to_string(end) +
                         ") are no range of layers",
                     "give 0 <= begin < end");
  }
  return rule(
      [begin, end](const ValueView& value) { return value.layer >= begin && value.layer < end; },
      action, "layers(" + std::to_string(begin) + ", " + std::to_string(end) + ")", strength);
}

Policy Policy::every_nth_layer(int64_t n, Action action, Strength strength) {
  if (n < 1) {
    throw UsageError("every " + std::to_string(n) + "-th layer", "give a number of at least 1");
  }
  return rule([n](const ValueView& value) { return value.layer >= 0 && value.layer % n == n - 1; },
              action, "every_nth_layer(" + std::to_string(n) + ")", strength);
}

Policy Policy::module(const std::string& path, Action action, Strength strength) {
  if (path.empty())
    throw UsageError("a module path is empty", "give a path such as 'blocks.3.ffn'");
  const std::string part = "." + path + ".";
  return rule(
      [part](const ValueView& value) {
        return ("." + std::string(value.module) + ".").find(part) != std::string::npos;
      },
      action, "module(" + path + ")", strength);
}

Policy Policy::where(Predicate predicate, Action action, const std::string& label,
                     Strength strength) {
  if (!predicate) throw UsageError("a rule's predicate is empty", "give a function");
  return rule(std::move(predicate), action, label, strength);
}

// Not every model has what the rules of a preset look for.
Policy Policy::preset() const {
  auto rules = std::make_shared<Rules>(*rules_);
  for (Rule& rule : rules->list) rule.quiet = true;
  rules->otherwise = Action::recompute;
  return Policy(std::move(rules));
}

Policy Policy::full() { return keep_names({"block"}).preset(); }

Policy Policy::every_layer() { return keep_names({"block", "layer"}).preset(); }

Policy Policy::keep_matmuls() {
  return keep_names({"block", "layer"})
      .then(keep_ops(products()))
      .then(where([](const ValueView& value) { return value.drawn; }, Action::encode, "masks"))
      .preset();
}

Policy Policy::keep_all() { return Policy(std::make_shared<Rules>()).otherwise(Action::keep); }

Policy Policy::then(const Policy& next) const {
  auto rules = std::make_shared<Rules>();
  rules->list = rules_->list;
  rules->list.insert(rules->list.end(), next.rules_->list.begin(), next.rules_->list.end());
  rules->otherwise = next.rules_->otherwise ? next.rules_->otherwise : rules_->otherwise;
  rules->audit = rules_->audit && next.rules_->audit;
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
