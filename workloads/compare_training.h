// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <reprise/report.h>

#include "workloads/workload.h"

namespace reprise::workloads {

/// Trains `steps` steps by the strategy of each row of a comparison, all from the present weights
/// and buffers, with a fresh optimizer and the same seeds, and fills in how each run ended: its
/// final weights and buffers are compared with those of the first row, bit by bit. Weights and
/// buffers are left as they were. Tells `next` the strategy before each run.
void train_side_by_side(Workload& workload, Comparison& comparison, int64_t steps,
                        const std::function<void(const std::string& strategy)>& next);

}  // namespace reprise::workloads
