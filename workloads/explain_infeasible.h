// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/budget_infeasible.h>

#include "workloads/workload.h"

namespace reprise::workloads {

/// An operator that does not fit knows only of itself. The same error, with what the whole step
/// needs at least, planned from its shapes; as it was where these cannot be looked at. `parts`: the
/// batch is taken in as many. REQUIRES: no MetaScope on this thread.
BudgetInfeasible explained(const BudgetInfeasible& error, const std::string& name,
                           WorkloadOptions options, int64_t parts);

}  // namespace reprise::workloads
