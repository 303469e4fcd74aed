// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace reprise::workloads {

/// The length of a schedule unless its user says otherwise.
inline constexpr int64_t kScheduleSteps = 1500;

/// What a learning rate is multiplied by: a rise from 0 over the first steps (a tenth of all, at
/// most 100), then half a cosine from 1 down to a tenth at the end of the schedule, where it stays
/// (Loshchilov and Hutter, SGDR, 2017, without restarts). `step` counts from 0, `steps` is the
/// length of the schedule: not of the run, so that a run that is resumed to go further takes the
/// same steps as one that went that far at once.
double cosine_with_warmup(int64_t step, int64_t steps);

}  // namespace reprise::workloads
