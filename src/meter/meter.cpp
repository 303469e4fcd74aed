// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reprise/error.h>
#include <reprise/meter.h>

#include "meter/accelerator.h"
#include "meter/process_allocator.h"

namespace reprise {
namespace {

c10::Device measurable(c10::Device device) {
  if (!device.is_cpu()) return detail::measurable_accelerator(device);
  if (!Meter::installed()) {
    throw UsageError(
        "Meter: CPU allocations are not counted, because REPRISE_METER=0 is set or another "
        "allocator was set after this library was loaded",
        "unset REPRISE_METER; set your own allocator first, before this library is loaded");
  }
  return device;
}

detail::Counters& cpu_counters() { return detail::process_allocator().counters(); }

}  // namespace

Meter::Meter(c10::Device device) : device_(measurable(device)) {}

bool Meter::installed() { return detail::process_allocator_in_place(); }

MemoryStats Meter::stats() const {
  return device_.is_cpu() ? cpu_counters().stats() : detail::accelerator_stats(device_);
}

int64_t Meter::live() const { return device_.is_cpu() ? cpu_counters().live() : stats().live; }

int64_t Meter::peak() const { return device_.is_cpu() ? cpu_counters().peak() : stats().peak; }

int64_t Meter::allocations() const {
  return device_.is_cpu() ? cpu_counters().allocations() : stats().allocations;
}

int64_t Meter::reset_peak() const {
  return device_.is_cpu() ? cpu_counters().reset_peak() : detail::accelerator_reset_peak(device_);
}

PeakScope::PeakScope(Meter meter)
    : meter_(meter), outer_peak_(meter_.reset_peak()), base_(meter_.live()) {}

PeakScope::~PeakScope() {
  if (meter_.device().is_cpu()) {
    cpu_counters().raise_peak(outer_peak_);
  } else {
    detail::accelerator_raise_peak(meter_.device(), outer_peak_);
  }
}

int64_t PeakScope::peak() const { return std::max(meter_.peak(), base_); }

}  // namespace reprise
