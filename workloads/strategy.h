// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <reprise/checkpoint_options.h>
#include <reprise/layer_class.h>
#include <reprise/policy.h>
#include <reprise/segments.h>
#include <reprise/store.h>

#include <ATen/core/Tensor.h>

#include "workloads/budget_size.h"

// Strategies: the words by which the command, tests and benches say what is kept and what is run
// again. A word comes in; out come the checkpointed regions of a row of layers, and the layers run
// that way through the library's public functions. What follows on a plus sets an option of each
// region, or of the store: "checkpoint+operators", "segments:5+reentrant+no_rng",
// "offload:disk+compressed".

namespace reprise::workloads {

/// One step of a chain: one tensor in, one out.
using Layer = std::function<at::Tensor(const at::Tensor&)>;

/// One step of a chain through which several tensors flow, such as a U-Net's with its skips.
using State = std::vector<at::Tensor>;
using StateLayer = std::function<State(const State&)>;

struct Plain {};      // plain
struct EachBlock {};  // checkpoint
struct BalancedSegments {
  int64_t segments;
};  // sequential:K
struct SizedSegments {
  int64_t size;
};  // segments:S
struct CutAfter {
  std::vector<int64_t> layers;
};  // layers:10,20,30
struct LayerRange {
  int64_t first, last;
};  // layers:0-11, both included
struct EveryNth {
  int64_t n;
};  // every:N

struct OnlyPart {
  std::string name;
};                   // attention, ffn: that part of each layer; decoder: the layers of that part
struct EachPart {};  // parts: every part of each layer, by itself
struct OnTape {
  enum class Rules { full, every_layer, keep_matmuls, advised, classes };
  Rules rules;
};  // tape:full, ...: operator replay
struct InParts {
  int64_t parts;
};  // accumulate:N

/// What values are offloaded to, as a strategy says it.
struct StoreKind {
  enum class Place { disk, host };
  enum class Form { plain, compressed, lossy };
  Place place = Place::disk;
  Form form = Form::plain;  ///< lossy: float32 numbers are rounded to bfloat16, and compressed

  bool exact() const { return form != Form::lossy; }
};

struct Offloaded {
  StoreKind::Place place;
};  // offload:disk, offload:host

struct UnderBudget {
  BudgetSize size;
  bool online = false;  ///< never planned
  bool hybrid = false;  ///< offloads to a disk, too
};                      // budget=SIZE, budget=P%, online=SIZE, ..., hybrid=SIZE, ...

using StrategyKind =
    std::variant<Plain, EachBlock, BalancedSegments, SizedSegments, CutAfter, LayerRange, EveryNth,
                 OnlyPart, EachPart, OnTape, InParts, Offloaded, UnderBudget>;

/// A layer is a chain of parts, where a workload's layers have them.
struct LayerPart {
  std::string name;
  Layer run;
};

struct Strategy {
  std::string text;  ///< as it was written
  StrategyKind kind;
  CheckpointOptions region = {};             ///< of each checkpointed region
  std::optional<StoreKind> store_kind = {};  ///< none where nothing is offloaded
  std::optional<Store> store = {};           ///< of that kind, once it is made: see stores.h
  bool is_plain() const { return std::holds_alternative<Plain>(kind); }
};

/// Follows a plan for so many bytes above base, and offloads to a disk if it `sends`. Its text is
/// "plan", which is no word of the grammar.
Strategy plan_strategy(int64_t above_base, bool sends);

/// The whole grammar in one line, for hints and help.
const std::string& strategy_grammar();

/// Throws UsageError, with the nearest known word, for anything but a strategy.
Strategy parse_strategy(const std::string& text);

/// A list such as "plain,layers:10,20,30,every:2": commas followed by a bare number belong to the
/// `layers:` before them. Throws UsageError as parse_strategy() does, and for an empty entry.
std::vector<Strategy> parse_strategies(const std::string& text);

/// The regions that are checkpointed, in order, when `layers` layers are run by `strategy`; layers
/// outside them are plain. `blocks` is how EachBlock groups the layers. Throws UsageError, naming
/// both numbers, when the strategy does not fit.
std::vector<Segment> regions(const Strategy& strategy, int64_t layers,
                             const std::vector<Segment>& blocks);

/// The policy of a strategy that replays operators or offloads, for so many layers; none for the
/// others. `classes` gives the measured classes of the modules to those that follow them; the
/// others do not ask. A Scope refuses one that offloads before its store is made. Throws UsageError
/// when the strategy does not fit.
std::optional<Policy> policy_of(const Strategy& strategy, int64_t layers,
                                const std::function<LayerClasses()>& classes);

/// Whether policy_of() asks for classes.
bool needs_classes(const Strategy& strategy);

/// Whether the strategy names parts of layers: one of them, or each.
bool asks_for_parts(const Strategy& strategy);

/// In how many parts a batch is taken, one after the other: N of accumulate:N, else 1.
int64_t parts_of(const Strategy& strategy);

/// The budget that a strategy trains under; none for the others. Who runs the steps makes the
/// Budget and gives it to the workload: see use_budget.h.
std::optional<BudgetSize> budget_of(const Strategy& strategy);

/// Whether that budget makes no plans.
bool stays_online(const Strategy& strategy);

/// The part of each layer that a strategy asks for; none for those that ask for whole layers.
std::optional<std::string> part_of(const Strategy& strategy);

/// Runs the parts of the layer of that number on `x`, by checkpointing where the strategy names the
/// part, or each.
at::Tensor run_parts(const Strategy& strategy, const std::vector<LayerPart>& parts, int64_t layer,
                     at::Tensor x);

/// Runs the layers one after the other on `x`, those in regions() by checkpointing. Where regions
/// are reentrant, an `x` that requires no gradient gets one, as they cannot do without.
at::Tensor run_layers(const Strategy& strategy, const std::vector<Layer>& layers,
                      const std::vector<Segment>& blocks, at::Tensor x);
State run_layers(const Strategy& strategy, const std::vector<StateLayer>& layers,
                 const std::vector<Segment>& blocks, State state);

}  // namespace reprise::workloads
