// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <reprise/store.h>

#include "workloads/workload.h"

// The stores of a run: what its strategies offload to.

namespace reprise::workloads {

/// For the start of a run. Throws UsageError for a strategy that offloads to a disk where no folder
/// is given, for a folder in which no store can be made, and for one that no strategy goes to.
void check_store_folder(const std::vector<Strategy>& strategies,
                        const std::optional<std::string>& folder);

/// A store on a disk, for `--store DIR`. Throws UsageError where none can be made.
Store store_in(const std::string& folder);

/// Makes the store that a strategy offloads to, unless it has one; nothing for those that offload
/// nothing. One on the host has room for all that a plain step takes above its base, which is
/// measured; for a model on an accelerator its memory is pinned. Throws UsageError as
/// check_store_folder() does, and StoreError where there is no such memory.
void make_store(Strategy& strategy, const std::optional<std::string>& folder, Workload& workload);

}  // namespace reprise::workloads
