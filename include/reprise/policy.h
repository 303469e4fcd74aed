// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reprise/export.h>
#include <reprise/layer_class.h>
#include <reprise/offload.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

namespace c10 {
class OperatorHandle;
}

// What becomes of each value that a forward pass makes: kept, kept in a smaller form, recomputed,
// or offloaded. A policy is a list of rules; the first that matches a value decides. Policies are
// values: cheap to copy, never changed by use, safe to share between threads.

namespace reprise {

enum class Action {
  keep,    ///< keep it as it is
  encode,  ///< keep it in a smaller form without loss (masks as bits, narrow integers), or as it is
  recompute,  ///< drop it; replay the operators that made it when the backward pass asks
  offload,    ///< send it to the policy's store, see into(), once the program has let go of it
};

/// How strongly a rule is meant. A `prefer` rule gives way to a `must` rule wherever that stands in
/// the list; two `must` rules that want different things of one value are a UsageError.
enum class Strength { prefer, must };

/// What a rule sees of a value. Views: valid during the call only.
struct ValueView {
  std::string_view op;        ///< the operator that made it, "aten::addmm"
  std::string_view overload;  ///< "Tensor", "default" operators have none
  int64_t invocation = 0;     ///< how many calls of this operator came before in this scope
  int output = 0;             ///< which of the operator's results
  c10::IntArrayRef sizes;
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device = c10::kCPU;
  int64_t bytes = 0;        ///< of its storage
  bool drawn = false;       ///< its storage holds random draws, such as dropout noise
  std::string_view name;    ///< as given by named() or boundary(), else empty
  std::string_view module;  ///< path of the innermost ModuleScope, "blocks.3.ffn", else empty
  int64_t layer = -1;       ///< the first number in that path, 3; -1 without one
};

/// An operator as rules name it: "aten::mm" for all its overloads, "aten::mul.Tensor" for one
/// ("aten::mm.default" where the overload has no name); "aten::" may be left out. Or the
/// dispatcher's handle, for one overload.
class REPRISE_API OperatorName {
 public:
  OperatorName(const char* name) : text_(name) {}             // NOLINT: implicit, to be listed
  OperatorName(std::string name) : text_(std::move(name)) {}  // NOLINT
  OperatorName(const c10::OperatorHandle& handle);            // NOLINT
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

class REPRISE_API Policy {
 public:
  using Predicate = std::function<bool(const ValueView&)>;

  /// Results of these operators. Throws UsageError for an operator that is not registered, naming
  /// the nearest, and for an empty list.
  static Policy keep_ops(const std::vector<OperatorName>& ops,
                         Strength strength = Strength::prefer);
  static Policy encode_ops(const std::vector<OperatorName>& ops,
                           Strength strength = Strength::prefer);
  static Policy recompute_ops(const std::vector<OperatorName>& ops,
                              Strength strength = Strength::prefer);
  static Policy offload_ops(const std::vector<OperatorName>& ops,
                            Strength strength = Strength::prefer);

  /// Values that were given one of these names by named() or boundary(). Throws UsageError for an
  /// empty list.
  static Policy keep_names(const std::vector<std::string>& names,
                           Strength strength = Strength::prefer);
  static Policy recompute_names(const std::vector<std::string>& names,
                                Strength strength = Strength::prefer);
  static Policy offload_names(const std::vector<std::string>& names,
                              Strength strength = Strength::prefer);

  /// Values made in layers [begin, end), counted by the first number in their module path.
  static Policy layers(int64_t begin, int64_t end, Action action,
                       Strength strength = Strength::prefer);
  /// One layer in `n`: layers n-1, 2n-1, ...
  static Policy every_nth_layer(int64_t n, Action action, Strength strength = Strength::prefer);
  /// Keeps what flows out of one block in `n` (see boundary()), counted as above, and recomputes
  /// the rest: regions of n blocks.
  static Policy boundary_every(int64_t n);
  /// Values whose module path is `path` or lies below it, or has it as a part ("ffn" matches
  /// "blocks.3.ffn" and "blocks.3.ffn.up").
  static Policy module(const std::string& path, Action action,
                       Strength strength = Strength::prefer);
  /// The attention parts of a model, by the names that modules have in the field: a part of the
  /// path is "attention", "attn", "self_attention", "self_attn", "cross_attention", "cross_attn" or
  /// "mha".
  static Policy attention(Action action, Strength strength = Strength::prefer);
  /// The same for feed-forward parts: "ffn", "mlp", "feed_forward", "feedforward" or "ff".
  static Policy ffn(Action action, Strength strength = Strength::prefer);

  /// Values made in modules of a class; see classify_layers().
  static Policy layer_class(const LayerClasses& classes, LayerClass which, Action action,
                            Strength strength = Strength::prefer);

  /// Values for which `predicate` is true; `label` names the rule in messages. The predicate may be
  /// called from any thread that runs under the scope.
  static Policy where(Predicate predicate, Action action, const std::string& label,
                      Strength strength = Strength::prefer);

  /// Keeps matrix products, convolutions, attention and what flows between blocks; masks as bits;
  /// recomputes the rest, which is cheap.
  static Policy keep_matmuls();
  /// Keeps what flows between blocks, see boundary(); recomputes the rest.
  static Policy full();
  /// Keeps what flows between blocks and between the layers inside them.
  static Policy every_layer();
  /// Keeps everything: for measuring what the recording costs.
  static Policy keep_all();
  /// Recomputes everything from what flows into the scope.
  static Policy recompute_all();
  /// The field's advice for a row of `layers` layers that are alike: leave the first and the last
  /// alone; in the others recompute what the feed-forward parts make and what is cheap and wide
  /// (norms, activation functions, dropout, sums), and keep what attention makes and the other
  /// matrix products. Needs module paths, see ModuleScope and ModulePaths. Throws UsageError for
  /// less than three layers. Source: Korthikanti et al., Reducing Activation Recomputation in Large
  /// Transformer Models, 2022, section 5, and the options of the training frameworks since.
  static Policy advised(int64_t layers);

  /// Offloads every value to `store`, as far as the options let it; keeps the rest.
  static Policy offload(const Store& store, const OffloadOptions& options = {});

  /// Where the rules that offload send values. Without it, a Scope with such rules is a UsageError.
  /// Of several in one policy, the last counts. Blocks of a graph keep the store.
  Policy into(const Store& store, const OffloadOptions& options = {}) const;

  /// The rules of this policy, then those of `next`.
  Policy then(const Policy& next) const;

  /// What becomes of a value that no rule matches. Default: after a rule that recomputes or
  /// offloads, keep; after any other, recompute.
  Policy otherwise(Action action) const;

  /// Whether the first scope with these rules (by their labels) checks every value that it drops:
  /// it keeps them all, and compares each with its replay bit by bit. A value whose replay differs
  /// is kept from then on, and a warning names the operator. Default: true.
  Policy audit(bool on) const;

  struct Rules;
  const Rules& rules() const { return *rules_; }

 private:
  Policy preset() const;
  explicit Policy(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}
  static Policy rule(Predicate predicate, Action action, const std::string& label,
                     Strength strength);
  std::shared_ptr<const Rules> rules_;
};

inline Policy operator|(const Policy& first, const Policy& second) { return first.then(second); }

}  // namespace reprise
