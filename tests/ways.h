// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <reprise/checkpoint.h>

// The ways in which the activations of a region come back.

namespace reprise::testing {

enum class Way {
  functions,        ///< the function is run again, up to the last tensor that is needed
  whole_functions,  ///< the function is run again, to its end
  operators,        ///< the operators that are needed are run again
};

inline CheckpointOptions options_of(Way way) {
  if (way == Way::operators) {
    return CheckpointOptions()
        .replay(Replay::operators)
        .policy(Policy::recompute_all().audit(false));
  }
  return CheckpointOptions().early_stop(way == Way::functions);
}

}  // namespace reprise::testing
