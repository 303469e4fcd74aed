// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "options.h"

namespace reprise::command {

/// plan --max-batch: how many samples fit, by each strategy and by a budget. Returns the exit code.
int plan_batches(const Options& options);

}  // namespace reprise::command
