// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <reprise/error.h>
#include <reprise/policy.h>
#include <reprise/suggest.h>

#include "policy/rules.h"
#include "torch/operator_names.h"

// Rules by what a value is: its operator, its name, its module.

namespace reprise {
namespace {

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string list_of(const std::vector<OperatorName>& ops) {
  std::vector<std::string> words;
  for (const OperatorName& op : ops) words.push_back(op.str());
  return list_of(words);
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

Policy::Predicate any_operator(const std::vector<OperatorName>& ops) {
  if (ops.empty()) throw UsageError("a rule lists no operator", "name one, such as 'aten::mm'");
  std::vector<OperatorPattern> patterns;
  for (const OperatorName& op : ops) patterns.push_back(parse_operator(op.str()));
  return [patterns = std::move(patterns)](const ValueView& value) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const OperatorPattern& p) { return p.matches(value); });
  };
}

Policy::Predicate any_name(const std::vector<std::string>& names) {
  if (names.empty()) throw UsageError("a rule lists no name", "give a name, as in named()");
  return [names](const ValueView& value) {
    return !value.name.empty() && std::find(names.begin(), names.end(), value.name) != names.end();
  };
}

/// Values in a module whose path is one of these, or has it as a part.
Policy::Predicate any_part(std::vector<std::string> parts) {
  for (std::string& part : parts) part = "." + part + ".";
  return [parts = std::move(parts)](const ValueView& value) {
    const std::string path = "." + std::string(value.module) + ".";
    return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return path.find(part) != std::string::npos;
    });
  };
}

void check_stride(int64_t n) {
  if (n < 1) {
    throw UsageError("every " + std::to_string(n) + "-th layer", "give a number of at least 1");
  }
}

const char* name_of(LayerClass which) {
  switch (which) {
    case LayerClass::compute_heavy:
      return "compute_heavy";
    case LayerClass::activation_heavy:
      return "activation_heavy";
    case LayerClass::light:
      return "light";
  }
  return "";
}

}  // namespace

OperatorName::OperatorName(const c10::OperatorHandle& handle)
    : text_(detail::overload_name(handle)) {}

Policy Policy::keep_ops(const std::vector<OperatorName>& ops, Strength strength) {
  return rule(any_operator(ops), Action::keep, "keep_ops(" + list_of(ops) + ")", strength);
}

Policy Policy::encode_ops(const std::vector<OperatorName>& ops, Strength strength) {
  return rule(any_operator(ops), Action::encode, "encode_ops(" + list_of(ops) + ")", strength);
}

Policy Policy::recompute_ops(const std::vector<OperatorName>& ops, Strength strength) {
  return rule(any_operator(ops), Action::recompute, "recompute_ops(" + list_of(ops) + ")",
              strength);
}

Policy Policy::offload_ops(const std::vector<OperatorName>& ops, Strength strength) {
  return rule(any_operator(ops), Action::offload, "offload_ops(" + list_of(ops) + ")", strength);
}

Policy Policy::keep_names(const std::vector<std::string>& names, Strength strength) {
  return rule(any_name(names), Action::keep, "keep_names(" + list_of(names) + ")", strength);
}

Policy Policy::recompute_names(const std::vector<std::string>& names, Strength strength) {
  return rule(any_name(names), Action::recompute, "recompute_names(" + list_of(names) + ")",
              strength);
}

Policy Policy::offload_names(const std::vector<std::string>& names, Strength strength) {
  return rule(any_name(names), Action::offload, "offload_names(" + list_of(names) + ")", strength);
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
  check_stride(n);
  return rule([n](const ValueView& value) { return value.layer >= 0 && value.layer % n == n - 1; },
              action, "every_nth_layer(" + std::to_string(n) + ")", strength);
}

Policy Policy::module(const std::string& path, Action action, Strength strength) {
  if (path.empty())
    throw UsageError("a module path is empty", "give a path such as 'blocks.3.ffn'");
  return rule(any_part({path}), action, "module(" + path + ")", strength);
}

Policy Policy::attention(Action action, Strength strength) {
  return rule(any_part({"attention", "attn", "self_attention", "self_attn", "cross_attention",
                        "cross_attn", "mha"}),
              action, "attention", strength);
}

Policy Policy::ffn(Action action, Strength strength) {
  return rule(any_part({"ffn", "mlp", "feed_forward", "feedforward", "ff"}), action, "ffn",
              strength);
}

Policy Policy::layer_class(const LayerClasses& classes, LayerClass which, Action action,
                           Strength strength) {
  std::set<std::string, std::less<>> modules;
  for (const auto& [module, found] : classes) {
    if (found == which) modules.insert(module);
  }
  return rule([modules = std::move(modules)](
                  const ValueView& value) { return modules.find(value.module) != modules.end(); },
              action, std::string("layer_class(") + name_of(which) + ")", strength);
}

Policy Policy::boundary_every(int64_t n) {
  check_stride(n);
  return rule(
             [n](const ValueView& value) {
               return value.name == "block" && value.layer >= 0 && value.layer % n == n - 1;
             },
             Action::keep, "boundary_every(" + std::to_string(n) + ")", Strength::prefer)
      .otherwise(Action::recompute);
}

}  // namespace reprise
