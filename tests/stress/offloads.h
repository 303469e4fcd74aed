// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <reprise/store.h>

#include <c10/core/Device.h>

namespace reprise::stress {

/// Threads that train small models at once, each under scopes of its own that offload to one store,
/// against plain, bit by bit; in some steps a pass fails. Throws where something differs or is
/// left. Returns how many values were moved.
int64_t check_offloads(unsigned seed, c10::Device device, const Store& store);

}  // namespace reprise::stress
