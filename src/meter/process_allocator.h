// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "meter/counting_allocator.h"

namespace reprise::detail {

/// The counting allocator of this process. It is set as LibTorch's CPU allocator when this library
/// is loaded, unless the environment has REPRISE_METER=0, and is never destroyed.
CountingAllocator& process_allocator();

/// Whether it is LibTorch's CPU allocator now.
bool process_allocator_in_place();

}  // namespace reprise::detail
