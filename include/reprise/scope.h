// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reprise/export.h>
#include <reprise/layer_class.h>
#include <reprise/module_paths.h>
#include <reprise/policy.h>

#include <ATen/core/Tensor.h>

// Selective recomputation by operator replay. Everything that runs on this thread while a Scope
// lives is recorded, operator by operator; the tensors that autograd saves are kept, encoded,
// dropped or offloaded by the policy, and dropped ones are brought back in the backward pass by
// replaying only the operators that are needed. The model's own code is not run again.

namespace reprise {

/// What a scope did. See docs/tape.md for what the words mean.
struct ScopeSummary {
  int64_t operators = 0;   ///< recorded
  int64_t saved = 0;       ///< tensors that autograd saved
  int64_t kept = 0;        ///<   of these: kept by the policy
  int64_t encoded = 0;     ///<   of these: kept in a smaller form
  int64_t recomputed = 0;  ///<   of these: dropped
  int64_t offloaded = 0;   ///<   of these: meant for a store
  int64_t external = 0;    ///<   of these: made outside of the scope; keeping them costs nothing
  int64_t unknown = 0;     ///<   of these: not replayable, kept
  int64_t replays = 0;     ///< operators run again so far
  OffloadSummary offload;  ///< what became of those
  std::vector<std::string> unused_rules;  ///< labels of rules that matched no value
  std::vector<ModuleCost> modules;        ///< by path; empty unless ScopeOptions::measure()
};

/// Options of one scope. Setters return the object, so that they chain.
class REPRISE_API ScopeOptions {
 public:
  /// A name for messages. Scopes of different names are audited apart, even if their policies are
  /// alike. Default: empty.
  ScopeOptions& name(std::string name) { return name_ = std::move(name), *this; }
  const std::string& name() const { return name_; }

  /// Paths of the modules that run in the scope. Default: none; then only a ModuleScope gives them.
  ScopeOptions& modules(ModulePaths paths) { return modules_ = std::move(paths), *this; }
  const ModulePaths& modules() const { return modules_; }

  /// Measures what each module costs, for ScopeSummary::modules. The clock waits for the
  /// accelerator at each operator, so measured passes are slower. Default: false.
  ScopeOptions& measure(bool on) { return measure_ = on, *this; }
  bool measure() const { return measure_; }

 private:
  std::string name_;
  ModulePaths modules_;
  bool measure_ = false;
};

class REPRISE_API Scope {
 public:
  /// Starts recording on this thread. Scopes nest: tensors saved under the inner one follow its
  /// policy. Throws Error when saved-tensor hooks are disabled on this thread.
  explicit Scope(const Policy& policy, const ScopeOptions& options = {});

  /// Ends the recording. Warns, by name and once for each policy, about rules that matched nothing.
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Ends the recording before the object's own end; its summary then goes on counting the replays.
  /// REQUIRES: the thread that made it, and no scope that began after it still recording.
  void end();

  ScopeSummary summary() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Gives the value of `tensor` a name, for rules by name. Returns the tensor. Does nothing outside
/// of a scope, or for a tensor that the scope has not made.
REPRISE_API at::Tensor named(const std::string& name, const at::Tensor& tensor);

/// Marks what flows from one block to the next, or with kind "layer" between the layers of a block:
/// named(kind, tensor).
REPRISE_API at::Tensor boundary(const at::Tensor& tensor, const std::string& kind = "block");

/// Keeps the value of `tensor`, whatever the policy says: the cure for a value that a kernel writes
/// past the dispatcher. Returns the tensor.
REPRISE_API at::Tensor keep(const at::Tensor& tensor);

/// While it lives, values made on this thread belong to a module path: "blocks.3", and inside of it
/// a ModuleScope("ffn") makes "blocks.3.ffn".
class REPRISE_API ModuleScope {
 public:
  explicit ModuleScope(const std::string& name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  std::size_t outer_length_;
};

}  // namespace reprise
