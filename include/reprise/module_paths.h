// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include <reprise/export.h>

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace reprise {

/// Which module each parameter and buffer of a model belongs to, so that rules, messages and
/// reports can say "blocks.3.ffn" of a model that is not changed for it. Made once, given to every
/// scope:
///
///     const ModulePaths paths(*model);
///     Scope scope(policy, ScopeOptions().modules(paths));
///
/// LibTorch's modules have no forward hooks. So a value belongs to the module whose parameter or
/// buffer was read last before it was made: to "blocks.3.ffn.up" for a Linear and for the
/// activation function behind it. A parameter that two modules share belongs to the first that was
/// added. Where a ModuleScope is open, it decides instead.
///
/// The tensors are followed, not copied: module->to(device) needs no new object; new submodules and
/// replaced parameters do. Cheap to copy. Does not keep the model alive. Adding is not thread-safe,
/// use is.
class REPRISE_API ModulePaths {
 public:
  ModulePaths();
  /// Paths begin with `name`, where it is not empty.
  explicit ModulePaths(const torch::nn::Module& module, const std::string& name = "");
  explicit ModulePaths(const torch::jit::Module& module, const std::string& name = "");

  /// Adds another model.
  ModulePaths& add(const torch::nn::Module& module, const std::string& name);
  ModulePaths& add(const torch::jit::Module& module, const std::string& name);

  struct Entries;
  const Entries& entries() const { return *entries_; }

 private:
  std::shared_ptr<Entries> entries_;
};

}  // namespace reprise
