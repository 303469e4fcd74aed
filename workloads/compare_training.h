// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <reprise/report.h>

#include "workloads/workload.h"

namespace reprise::workloads {

/// Trains `steps` steps by each strategy, all from the present weights and buffers, with a fresh
/// optimizer and the same seeds, and fills in the rows of a comparison, of the same strategies, how
/// each run ended: its final weights and buffers are compared with those of the first, bit by bit.
/// Weights and buffers are left as they were. Tells `next` the strategy before each run.
void train_side_by_side(Workload& workload, const std::vector<Strategy>& strategies, int64_t steps,
                        Comparison& comparison,
                        const std::function<void(const std::string& strategy)>& next);

}  // namespace reprise::workloads
