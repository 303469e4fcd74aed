// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Before LibTorch's allocator for CUDA asks the driver for memory, it asks whoever has registered
// to free some of what it has handed out.

namespace reprise::detail {

/// Registers `frees_some`, once in a process, where there is such an allocator; returns whether
/// there is. `frees_some` says whether it has freed anything. It is called on the thread that
/// allocates, under the allocator's lock, whenever no cached block fits: so not only when memory is
/// out.
bool when_out_of_memory(bool (*frees_some)() noexcept);

}  // namespace reprise::detail
