// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <reprise/meter.h>

#include <c10/core/Device.h>

// The accelerator's side of the meter, over the statistics that every caching allocator of LibTorch
// keeps. Device-generic: whichever accelerator this process has, without its vendor's headers.

namespace reprise::detail {

/// The device with its index filled in. Throws UsageError if it cannot be measured.
c10::Device measurable_accelerator(c10::Device device);

// REQUIRES of the rest: a device that measurable_accelerator() returned.

MemoryStats accelerator_stats(c10::Device device);
int64_t accelerator_reset_peak(c10::Device device);

/// The largest live bytes since this was last called or the peak was reset, whoever did so. The
/// peak goes on for all others.
int64_t accelerator_take_peak(c10::Device device);

/// Makes the peak at least `bytes`, until the next accelerator_reset_peak().
void accelerator_raise_peak(c10::Device device, int64_t bytes);

}  // namespace reprise::detail
