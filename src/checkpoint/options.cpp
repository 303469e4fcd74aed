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
    return;
  }
  const std::string instead = ", or use Replay::functions";
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

}  // namespace reprise
