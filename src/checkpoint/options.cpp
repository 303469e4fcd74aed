// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include <reprise/checkpoint_options.h>
#include <reprise/error.h>

namespace reprise {

void CheckpointOptions::check() const {
  const auto require = [&](bool applies, const std::string& option, const std::string& hint) {
    if (applies) return;
    throw UsageError("checkpoint(): " + option + " does not go with Replay::" +
                         (replay_ == Replay::operators ? "operators" : "functions"),
                     hint);
  };
  if (replay_ == Replay::functions) {
    require(!policy_, "a policy", "a function is run again whole: set replay(Replay::operators)");
    if (variant_ == Variant::reentrant) check_reentrant();
    return;
  }
  const std::string instead = ", or use Replay::functions";
  require(variant_ == Variant::non_reentrant, "Variant::reentrant",
          "operators are replayed inside the graph that they made: leave it out" + instead);
  require(preserve_rng_, "preserve_rng(false)",
          "draws are part of what is recorded: leave it on" + instead);
  require(early_stop_, "early_stop(false)",
          "only the operators that are needed are run again: leave it on" + instead);
  require(restore_buffers_, "restore_buffers(false)",
          "a replay of operators never writes to a buffer: leave it on" + instead);
  require(determinism_ != Determinism::none, "Determinism::none",
          "what an operator makes again is always compared: leave it at metadata" + instead);
  require(determinism_ != Determinism::values, "Determinism::values",
          "the audit of the policy compares values: leave it at metadata" + instead);
  require(!debug_, "debug(true)",
          "errors of operator replay name the operator: leave it off" + instead);
  require(!forward_context_ && !replay_context_, "contexts()",
          "user code does not run again: put a guard around the call" + instead);
  require(!respect_outer_hooks_, "respect_outer_hooks()",
          "what a replay of operators starts from is kept by its record: leave it out" + instead);
}

void CheckpointOptions::check_reentrant() const {
  const auto refuse = [](const std::string& option, const std::string& why) {
    throw UsageError("checkpoint(): " + option + " does not go with Variant::reentrant",
                     why + ": leave it out, or use Variant::non_reentrant");
  };
  if (debug_) refuse("debug(true)", "the forward pass saves nothing that could be compared");
  if (!respect_outer_hooks()) {
    refuse("respect_outer_hooks(false)", "autograd keeps the arguments, as it does for any node");
  }
}

}  // namespace reprise
