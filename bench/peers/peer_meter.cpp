// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>

#include <reprise/meter.h>

// Reprise's meter for Python's ctypes. Loaded into a process that has a libtorch already, it counts
// that libtorch's CPU memory from then on, so that both sides are measured by the same counter.
// Each function answers -1 where nothing is counted.

namespace {

template <class Read>
int64_t counted(Read read) {
  return reprise::Meter::installed() ? read(reprise::Meter()) : -1;
}

}  // namespace

extern "C" {

int64_t live() {
  return counted([](const reprise::Meter& meter) { return meter.live(); });
}

int64_t peak() {
  return counted([](const reprise::Meter& meter) { return meter.peak(); });
}

int64_t reset_peak() {
  return counted([](const reprise::Meter& meter) { return meter.reset_peak(); });
}
}
