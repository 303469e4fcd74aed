// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The registry of CUDA's allocator for those who can free memory, played by the test program: a
// library finds it under the name that it has there.

namespace reprise::testing {

/// Asks all who have registered; whether one of them has freed anything.
bool call_free_memory_callbacks();

}  // namespace reprise::testing
