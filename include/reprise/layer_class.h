// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <reprise/export.h>

// What the layers of a model cost, and a coarse word for it that rules can use.

namespace reprise {

/// What one module's own operators cost in one forward pass, without those of modules inside it.
struct ModuleCost {
  std::string module;       ///< its path, "blocks.3.ffn.up"; empty for what lies in no module
  int64_t operators = 0;    ///< that ran in it
  double milliseconds = 0;  ///< of their kernels
  int64_t saved_bytes = 0;  ///< of the storages made in it that autograd saved, each once
};

enum class LayerClass {
  compute_heavy,     ///< its share of the time is larger than its share of the saved bytes
  activation_heavy,  ///< the other way round: much memory for little work, so recompute it first
  light,             ///< both shares are below a quarter of an equal share: not worth a rule
};

/// By module path.
using LayerClasses = std::map<std::string, LayerClass, std::less<>>;

/// Classes of the modules in a measured forward pass: ScopeSummary::modules of a scope with
/// ScopeOptions::measure(). Measure a pass that is not the first, when caches are warm. What lies
/// in no module has no class.
REPRISE_API LayerClasses classify_layers(const std::vector<ModuleCost>& modules);

}  // namespace reprise
