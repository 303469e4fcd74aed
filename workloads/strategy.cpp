// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/strategy.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <utility>

#include <reprise/checkpoint.h>
#include <reprise/error.h>
#include <reprise/scope.h>
#include <reprise/sequential.h>

#include <c10/core/GradMode.h>

#include "workloads/words.h"

namespace reprise::workloads {
namespace {

using Parser = StrategyKind (*)(const std::string& text, const std::string& value);

// A word of the grammar: how it is written in hints, and what reads the part after its colon.
// A word without a parser stands alone.
struct Word {
  std::string name;
  std::string usage;
  StrategyKind alone;
  Parser parse;
};

[[noreturn]] void bad_value(const std::string& text, const std::string& expected) {
  throw UsageError("strategy '" + text + "': " + expected, strategy_grammar());
}

int64_t positive(const std::string& text, const std::string& value) {
  const auto number = parse_whole(value, 1, std::numeric_limits<int64_t>::max());
  if (!number) bad_value(text, "expected a whole number of 1 or more, got '" + value + "'");
  return *number;
}

StrategyKind parse_range(const std::string& text, const std::string& value, std::size_t dash) {
  const auto most = std::numeric_limits<int64_t>::max() - 1;
  const auto first = parse_whole(value.substr(0, dash), 0, most);
  const auto last = parse_whole(value.substr(dash + 1), 0, most);
  if (!first || !last)
    bad_value(text, "expected a range of layers such as 0-11, got '" + value + "'");
  if (*first > *last) bad_value(text, "the range begins after its end");
  return LayerRange{*first, *last};
}

StrategyKind parse_layers(const std::string& text, const std::string& value) {
  const std::size_t dash = value.find('-');
  if (dash != std::string::npos && dash > 0) return parse_range(text, value, dash);
  CutAfter cut;
  for (const std::string& part : split(value, ',')) {
    const int64_t layer = positive(text, part);
    if (!cut.layers.empty() && layer <= cut.layers.back()) {
      bad_value(text, "boundaries must rise, but " + part + " follows " +
                          std::to_string(cut.layers.back()));
    }
    cut.layers.push_back(layer);
  }
  return cut;
}

const std::vector<std::pair<std::string, OnTape::Rules>>& tape_policies() {
  static const std::vector<std::pair<std::string, OnTape::Rules>> kPolicies = {
      {"full", OnTape::Rules::full},
      {"every_layer", OnTape::Rules::every_layer},
      {"keep_matmuls", OnTape::Rules::keep_matmuls},
      {"advised", OnTape::Rules::advised},
      {"classes", OnTape::Rules::classes},
  };
  return kPolicies;
}

StrategyKind parse_tape(const std::string& text, const std::string& value) {
  std::vector<std::string> names;
  for (const auto& [name, rules] : tape_policies()) {
    if (name == value) return OnTape{rules};
    names.push_back(name);
  }
  throw UsageError("strategy '" + text + "': unknown policy '" + value + "'",
                   did_you_mean(value, names, "policies: " + join(names)));
}

StrategyKind parse_offload(const std::string& text, const std::string& value) {
  if (value == "disk") return Offloaded{StoreKind::Place::disk};
  if (value == "host") return Offloaded{StoreKind::Place::host};
  throw UsageError("strategy '" + text + "': unknown store '" + value + "'",
                   did_you_mean(value, {"disk", "host"}, "stores: disk, host"));
}

const std::vector<Word>& words() {
  static const std::vector<Word> kWords = {
      {"plain", "plain", Plain{}, nullptr},
      {"checkpoint", "checkpoint", EachBlock{}, nullptr},
      {"sequential",
       "sequential:K",
       {},
       [](const std::string& text, const std::string& value) -> StrategyKind {
         return BalancedSegments{positive(text, value)};
       }},
      {"segments",
       "segments:S",
       {},
       [](const std::string& text, const std::string& value) -> StrategyKind {
         return SizedSegments{positive(text, value)};
       }},
      {"layers", "layers:10,20,30 or layers:0-11", {}, parse_layers},
      {"every",
       "every:N",
       {},
       [](const std::string& text, const std::string& value) -> StrategyKind {
         return EveryNth{positive(text, value)};
       }},
      {"attention", "attention", OnlyPart{"attention"}, nullptr},
      {"ffn", "ffn", OnlyPart{"ffn"}, nullptr},
      {"decoder", "decoder", OnlyPart{"decoder"}, nullptr},
      {"parts", "parts", EachPart{}, nullptr},
      {"tape",
       "tape:full, tape:every_layer, tape:keep_matmuls, tape:advised or tape:classes",
       {},
       parse_tape},
      {"accumulate",
       "accumulate:N",
       {},
       [](const std::string& text, const std::string& value) -> StrategyKind {
         return InParts{positive(text, value)};
       }},
      {"offload", "offload:disk or offload:host", {}, parse_offload},
      {"budget",
       "budget=SIZE or budget=P%",
       {},
       [](const std::string& text, const std::string& value) -> StrategyKind {
         return UnderBudget{parse_budget_size("strategy '" + text + "': ", value)};
       }},
      {"online",
       "online=SIZE or online=P%",
       {},
       [](const std::string& text, const std::string& value) -> StrategyKind {
         return UnderBudget{parse_budget_size("strategy '" + text + "': ", value), true};
       }},
      {"hybrid",
       "hybrid=SIZE or hybrid=P%",
       {},
       [](const std::string& text, const std::string& value) -> StrategyKind {
         return UnderBudget{.size = parse_budget_size("strategy '" + text + "': ", value),
                            .hybrid = true};
       }},
  };
  return kWords;
}

struct Modifier {
  std::string name;
  void (*set)(Strategy& strategy);
};

struct Modifiers {
  std::string of;
  std::vector<Modifier> list;

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Modifier& modifier : list) names.push_back(modifier.name);
    return names;
  }
  std::string usage() const {
    std::string text;
    for (const Modifier& modifier : list) text += " [+" + modifier.name + "]";
    return text;
  }
};

const Modifiers& region_modifiers() {
  static const Modifiers kModifiers = {
      "regions",
      {{"operators", [](Strategy& strategy) { strategy.region.replay(Replay::operators); }},
       {"reentrant", [](Strategy& strategy) { strategy.region.variant(Variant::reentrant); }},
       {"no_rng", [](Strategy& strategy) { strategy.region.preserve_rng(false); }}}};
  return kModifiers;
}

// Each is a form of its own, so that the second one finds the first.
void set_form(Strategy& strategy, StoreKind::Form form) {
  if (strategy.store_kind->form != StoreKind::Form::plain) {
    bad_value(strategy.text, "these options do not go together");
  }
  strategy.store_kind->form = form;
}

const Modifiers& store_modifiers() {
  static const Modifiers kModifiers = {
      "stores",
      {{"compressed", [](Strategy& strategy) { set_form(strategy, StoreKind::Form::compressed); }},
       {"lossy", [](Strategy& strategy) {
          if (std::holds_alternative<UnderBudget>(strategy.kind)) {
            bad_value(strategy.text, "a budget keeps every bit, so its store rounds nothing");
          }
          set_form(strategy, StoreKind::Form::lossy);
        }}}};
  return kModifiers;
}

bool has_regions(const StrategyKind& kind) {
  return !std::holds_alternative<Plain>(kind) && !std::holds_alternative<OnTape>(kind) &&
         !std::holds_alternative<InParts>(kind) && !std::holds_alternative<Offloaded>(kind) &&
         !std::holds_alternative<UnderBudget>(kind);
}

// `parts` are the strategy without modifiers, then the modifiers.
void set_modifiers(Strategy& strategy, const std::vector<std::string>& parts) {
  if (parts.size() == 1) return;
  const std::string& text = strategy.text;
  if (!strategy.store_kind && !has_regions(strategy.kind)) {
    bad_value(text, "'" + parts[0] + "' has no regions to which '+" + parts[1] + "' could apply");
  }
  const Modifiers& modifiers = strategy.store_kind ? store_modifiers() : region_modifiers();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto same = [&](const Modifier& modifier) { return modifier.name == parts[i]; };
    const auto found = std::find_if(modifiers.list.begin(), modifiers.list.end(), same);
    if (found == modifiers.list.end()) {
      const std::vector<std::string> names = modifiers.names();
      throw UsageError(
          "strategy '" + text + "': unknown option '+" + parts[i] + "'",
          did_you_mean(parts[i], names, "options of " + modifiers.of + ": " + join(names)));
    }
    if (std::count(parts.begin() + 1, parts.end(), parts[i]) > 1) {
      bad_value(text, "'+" + parts[i] + "' stands twice");
    }
    found->set(strategy);
  }
  try {
    strategy.region.check();
  } catch (const UsageError&) {
    bad_value(text, "these options do not go together");
  }
}

std::optional<StoreKind> store_kind_of(const StrategyKind& kind) {
  const auto* offloaded = std::get_if<Offloaded>(&kind);
  if (offloaded != nullptr) return StoreKind{.place = offloaded->place};
  const auto* budget = std::get_if<UnderBudget>(&kind);
  if (budget != nullptr && budget->hybrid) return StoreKind{.place = StoreKind::Place::disk};
  return std::nullopt;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Word& word : words()) names.push_back(word.name);
  return names;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool takes_bytes(const std::string& name) {
  return name == "budget" || name == "online" || name == "hybrid";
}

StrategyKind parse_kind(const std::string& text, const std::string& base) {
  const std::size_t colon = base.find_first_of(":=");
  const std::string name = base.substr(0, colon);
  for (const Word& word : words()) {
    if (word.name != name) continue;
    if (colon != std::string::npos && base[colon] != (takes_bytes(name) ? '=' : ':')) {
      bad_value(text, "it is written " + word.usage);
    }
    const bool has_value = colon != std::string::npos;
    if (!word.parse && has_value) bad_value(text, "'" + name + "' takes no number");
    if (!word.parse) return word.alone;
    if (!has_value) bad_value(text, "it is written " + word.usage);
    return word.parse(text, base.substr(colon + 1));
  }
  throw UsageError(text.empty() ? "an empty strategy" : "unknown strategy '" + text + "'",
                   did_you_mean(name, known_names(), strategy_grammar()));
}

std::string layers_of(int64_t layers) {
  return std::to_string(layers) + (layers == 1 ? " layer" : " layers");
}

[[noreturn]] void does_not_fit(const Strategy& strategy, const std::string& problem, int64_t asked,
                               int64_t layers) {
  throw UsageError(
      "strategy '" + strategy.text + "': " + problem + " " + std::to_string(asked) +
          " of a workload of " + layers_of(layers),
      "layers are counted from 0 to " + std::to_string(layers - 1) + "; " + strategy_grammar());
}

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

std::vector<Segment> single_layers(int64_t first, int64_t last, int64_t stride) {
  std::vector<Segment> singles;
  for (int64_t layer = first; layer <= last; layer += stride) singles.push_back({layer, layer + 1});
  return singles;
}

// As in checkpoint_sequential(), the last segment is run plainly: its activations are needed as
// soon as the backward pass begins.
std::vector<Segment> balanced_regions(const Strategy& strategy, int64_t layers, int64_t segments) {
  if (segments > layers)
    does_not_fit(strategy, "cannot make as many segments as", segments, layers);
  std::vector<Segment> all = balanced_segments(layers, segments);
  all.pop_back();
  return all;
}

}  // namespace

const std::string& strategy_grammar() {
  static const std::string kGrammar = [] {
    std::vector<std::string> usages;
    for (const Word& word : words()) usages.push_back(word.usage);
    return "strategies: " + join(usages) + "; those that checkpoint regions take" +
           region_modifiers().usage() + "; those that offload take" + store_modifiers().usage() +
           ", hybrid not the last";
  }();
  return kGrammar;
}

Strategy plan_strategy(int64_t above_base, bool sends) {
  Strategy strategy{"plan", UnderBudget{BudgetSize{.above_base = above_base}}};
  if (sends) strategy.store_kind.emplace();
  return strategy;
}

Strategy parse_strategy(const std::string& text) {
  const std::vector<std::string> parts = split(text, '+');
  Strategy strategy{text, parse_kind(text, parts[0])};
  strategy.store_kind = store_kind_of(strategy.kind);
  set_modifiers(strategy, parts);
  return strategy;
}

std::vector<Strategy> parse_strategies(const std::string& text) {
  std::vector<std::string> entries;
  for (const std::string& part : split(text, ',')) {
    const bool continues =
        is_number(part) && !entries.empty() && entries.back().starts_with("layers:");
    if (continues) {
      entries.back() += "," + part;
    } else {
      entries.push_back(part);
    }
  }
  std::vector<Strategy> strategies;
  for (const std::string& entry : entries) strategies.push_back(parse_strategy(entry));
  return strategies;
}

std::vector<Segment> regions(const Strategy& strategy, int64_t layers,
                             const std::vector<Segment>& blocks) {
  return std::visit(Overloaded{
                        [&](const Plain&) { return std::vector<Segment>(); },
                        [&](const OnTape&) { return std::vector<Segment>(); },
                        [&](const InParts&) { return std::vector<Segment>(); },
                        [&](const Offloaded&) { return std::vector<Segment>(); },
                        [&](const UnderBudget&) { return std::vector<Segment>(); },
                        [&](const EachPart&) { return single_layers(0, layers - 1, 1); },
                        [&](const OnlyPart&) { return single_layers(0, layers - 1, 1); },
                        [&](const EachBlock&) { return blocks; },
                        [&](const BalancedSegments& kind) {
                          return balanced_regions(strategy, layers, kind.segments);
                        },
                        [&](const SizedSegments& kind) { return make_segments(layers, kind.size); },
                        [&](const CutAfter& kind) {
                          const int64_t last = kind.layers.back();
                          if (last >= layers)
                            does_not_fit(strategy, "there is no layer to begin a segment at", last,
                                         layers);
                          return segments_at(layers, kind.layers);
                        },
                        [&](const LayerRange& kind) {
                          if (kind.last >= layers) {
                            does_not_fit(strategy, "there is no layer", kind.last, layers);
                          }
                          return single_layers(kind.first, kind.last, 1);
                        },
                        [&](const EveryNth& kind) {
                          if (kind.n > layers)
                            does_not_fit(strategy, "no layer is chosen by every", kind.n, layers);
                          return single_layers(kind.n - 1, layers - 1, kind.n);
                        },
                    },
                    strategy.kind);
}

std::optional<Policy> policy_of(const Strategy& strategy, int64_t layers,
                                const std::function<LayerClasses()>& classes) {
  if (std::holds_alternative<Offloaded>(strategy.kind)) {
    const Policy all =
        Policy::where([](const ValueView&) { return true; }, Action::offload, "offload");
    return strategy.store ? all.into(*strategy.store) : all;
  }
  const auto* tape = std::get_if<OnTape>(&strategy.kind);
  if (tape == nullptr) return std::nullopt;
  switch (tape->rules) {
    case OnTape::Rules::full:
      return Policy::full();
    case OnTape::Rules::every_layer:
      return Policy::every_layer();
    case OnTape::Rules::keep_matmuls:
      return Policy::keep_matmuls();
    case OnTape::Rules::advised:
      return Policy::advised(layers);
    case OnTape::Rules::classes:
      return Policy::keep_names({"block", "layer"})
          .then(Policy::layer_class(classes(), LayerClass::activation_heavy, Action::recompute));
  }
  return std::nullopt;
}

bool needs_classes(const Strategy& strategy) {
  const auto* tape = std::get_if<OnTape>(&strategy.kind);
  return tape != nullptr && tape->rules == OnTape::Rules::classes;
}

bool asks_for_parts(const Strategy& strategy) {
  return std::holds_alternative<EachPart>(strategy.kind) ||
         std::holds_alternative<OnlyPart>(strategy.kind);
}

int64_t parts_of(const Strategy& strategy) {
  const auto* split = std::get_if<InParts>(&strategy.kind);
  return split != nullptr ? split->parts : 1;
}

std::optional<BudgetSize> budget_of(const Strategy& strategy) {
  const auto* budget = std::get_if<UnderBudget>(&strategy.kind);
  return budget != nullptr ? std::optional<BudgetSize>(budget->size) : std::nullopt;
}

bool stays_online(const Strategy& strategy) {
  const auto* budget = std::get_if<UnderBudget>(&strategy.kind);
  return budget != nullptr && budget->online;
}

std::optional<std::string> part_of(const Strategy& strategy) {
  const auto* only = std::get_if<OnlyPart>(&strategy.kind);
  return only ? std::optional<std::string>(only->name) : std::nullopt;
}

namespace {

// Whether values belong to "layers.3.ffn". Where they do not, they belong to the module whose
// parameter was read last: profiles and measured classes look at those, which are finer.
bool names_layers(const Strategy& strategy) {
  return !strategy.is_plain() && !needs_classes(strategy);
}

}  // namespace

at::Tensor run_parts(const Strategy& strategy, const std::vector<LayerPart>& parts, int64_t layer,
                     at::Tensor x) {
  const auto only = part_of(strategy);
  const auto region = [&](const LayerPart& part) {
    return CheckpointOptions(strategy.region)
        .name("layer " + std::to_string(layer) + ", " + part.name);
  };
  for (const LayerPart& part : parts) {
    std::optional<ModuleScope> module;
    if (names_layers(strategy)) module.emplace(part.name);
    const bool chosen = std::holds_alternative<EachPart>(strategy.kind) || only == part.name;
    x = boundary(chosen ? checkpoint(region(part), part.run, x) : part.run(x), "layer");
  }
  return x;
}

namespace {

using reprise::boundary;  // of one tensor

State boundary(State state) {
  for (at::Tensor& x : state) x = boundary(x);
  return state;
}

// A reentrant region is reached by the gradient of what it is given, and data requires none.
at::Tensor reachable(const at::Tensor& x) {
  const bool can = c10::GradMode::is_enabled() && x.is_floating_point();
  return can && !x.requires_grad() ? x.detach().requires_grad_() : x;
}

State reachable(State state) {
  state.front() = reachable(state.front());
  return state;
}

// `X` is what flows from layer to layer.
template <class X>
X run_chain(const Strategy& strategy, const std::vector<std::function<X(const X&)>>& layers,
            const std::vector<Segment>& blocks, X x) {
  const auto count = static_cast<int64_t>(layers.size());
  const std::vector<Segment> checkpointed = regions(strategy, count, blocks);
  if (strategy.region.variant() == Variant::reentrant) x = reachable(std::move(x));
  const auto segmented = [&] {
    return checkpoint_segments(strategy.region, layers, checkpointed, std::move(x));
  };
  const auto singly = [&] {
    auto next = checkpointed.begin();
    for (int64_t i = 0; i < count; ++i) {
      const bool chosen = next != checkpointed.end() && next->begin == i;
      if (chosen) ++next;
      const ModuleScope module("layers." + std::to_string(i));
      const auto region = [&] {
        return CheckpointOptions(strategy.region).name("layer " + std::to_string(i));
      };
      x = boundary(chosen ? checkpoint(region(), layers[i], x) : layers[i](x));
    }
    return std::move(x);
  };
  // The parts are checkpointed by run_parts(), inside the layers.
  const auto plainly = [&] {
    for (const auto& layer : layers) x = boundary(layer(x));
    return std::move(x);
  };
  const auto recorded = [&] { return names_layers(strategy) ? singly() : plainly(); };
  return std::visit(Overloaded{
                        [&](const BalancedSegments& kind) {
                          return checkpoint_sequential(SequentialOptions().region(strategy.region),
                                                       layers, kind.segments, std::move(x));
                        },
                        [&](const EachBlock&) { return segmented(); },
                        [&](const SizedSegments&) { return segmented(); },
                        [&](const CutAfter&) { return segmented(); },
                        [&](const Plain&) { return plainly(); },
                        [&](const InParts&) { return singly(); },
                        [&](const Offloaded&) { return singly(); },
                        [&](const UnderBudget&) { return singly(); },
                        [&](const OnTape&) { return recorded(); },
                        [&](const OnlyPart&) { return plainly(); },
                        [&](const EachPart&) { return plainly(); },
                        [&](const LayerRange&) { return singly(); },
                        [&](const EveryNth&) { return singly(); },
                    },
                    strategy.kind);
}

}  // namespace

at::Tensor run_layers(const Strategy& strategy, const std::vector<Layer>& layers,
                      const std::vector<Segment>& blocks, at::Tensor x) {
  return run_chain(strategy, layers, blocks, std::move(x));
}

State run_layers(const Strategy& strategy, const std::vector<StateLayer>& layers,
                 const std::vector<Segment>& blocks, State state) {
  return run_chain(strategy, layers, blocks, std::move(state));
}

}  // namespace reprise::workloads
