// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

namespace reprise::workloads {

/// What a learning rate is multiplied by: a rise from 0 over the first steps (a tenth of all, at
/// most 100), then half a cosine from 1 down to a tenth (Loshchilov and Hutter, SGDR, 2017, without
/// restarts). Steps count from 0. Without a number of steps it stays at 1 after the rise.
double cosine_with_warmup(int64_t step, std::optional<int64_t> steps);

}  // namespace reprise::workloads
