// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include <reprise/export.h>

#include <c10/core/Device.h>

// Measures memory: live and peak bytes of LibTorch's allocators, and the resident memory of the
// process. On the CPU the bytes are those that storages asked for, counted exactly by an allocator
// that wraps the one in place; it is installed when this library is loaded, so that parameters
// count (REPRISE_METER=0 in the environment leaves it out). On an accelerator they are those of the
// device's caching allocator, rounded up as it does. Memory that LibTorch did not allocate, such as
// that under from_blob(), is in neither. All functions may be called from any thread.

namespace reprise {

/// What a device's allocator has handed out, in bytes where not said otherwise; never negative.
/// The figures are read one after another: they agree with each other when no other thread
/// allocates meanwhile. On an accelerator, all but `live` start anew when another part of the
/// program resets the device's statistics.
struct MemoryStats {
  int64_t live = 0;             ///< allocated and not yet freed
  int64_t peak = 0;             ///< largest `live` since the start or the last reset_peak()
  int64_t allocations = 0;      ///< number of allocations since the start; empty ones do not count
  int64_t allocated_total = 0;  ///< bytes allocated since the start
  int64_t freed_total = 0;      ///< bytes freed since the start
};

/// Reads the counters of one device. A small value to copy: the counters belong to the process.
class REPRISE_API Meter {
 public:
  /// Throws UsageError for a device that cannot be measured: an accelerator that is not there or
  /// keeps no statistics, or the CPU when the counting allocator is not in place (see
  /// `installed()`). An accelerator without an index is the current one of its type.
  explicit Meter(c10::Device device = c10::kCPU);

  c10::Device device() const { return device_; }  ///< an accelerator's has its index
  MemoryStats stats() const;
  int64_t live() const;
  int64_t peak() const;
  int64_t allocations() const;

  /// Starts a new peak at the present live bytes; returns the old peak.
  int64_t reset_peak() const;

  /// Whether CPU allocations are counted: false after REPRISE_METER=0, or when another allocator
  /// has been set over ours. What was allocated before that, or before this library was loaded, is
  /// freed rightly all the same.
  static bool installed();

 private:
  c10::Device device_;
};

/// Measures the peak of a piece of work, without losing the peak of the work around it:
///
///     PeakScope step;
///     train_step();
///     int64_t bytes = step.peak_above_base();
///
/// Scopes nest; those of one device must end in the reverse order of their start, so use them from
/// one thread at a time (the peak itself counts the allocations of all threads). A reset_peak()
/// inside a scope starts its peak anew.
class REPRISE_API PeakScope {
 public:
  explicit PeakScope(Meter meter = Meter());
  ~PeakScope();
  PeakScope(const PeakScope&) = delete;
  PeakScope& operator=(const PeakScope&) = delete;

  int64_t base() const { return base_; }  ///< live bytes when the scope began
  int64_t peak() const;                   ///< largest live bytes since then
  int64_t peak_above_base() const { return peak() - base_; }

 private:
  Meter meter_;
  int64_t outer_peak_;
  int64_t base_;
};

/// Resident memory of the process, in bytes, as the operating system counts it: with code, stacks
/// and libraries' scratch, which no allocator of LibTorch sees. Empty where the system has no such
/// figure (only Linux has it today).
REPRISE_API std::optional<int64_t> resident_bytes();

/// Largest resident memory since the start or since reset_resident_peak(). Empty as above.
REPRISE_API std::optional<int64_t> resident_peak_bytes();

/// Starts a new resident peak at the present value. Returns false where the system refuses.
REPRISE_API bool reset_resident_peak();

}  // namespace reprise
