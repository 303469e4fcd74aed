// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

// Copies between an accelerator and the host beside the accelerator's other work, on a stream of
// their own. Device-generic; on a device without streams they are done at once.

namespace reprise::detail {

class SideCopy {
 public:
  /// Begins once what the current stream of the device has been given so far is done. `from` may be
  /// let go of at once: its memory is not used again before the copy has ended. REQUIRES: below
  /// autograd, and that nobody writes to `from`.
  static SideCopy to_host(const c10::Storage& from, const c10::Storage& host);

  /// The same into the device. Both must live until it is done, or have been waited for.
  static SideCopy to_device(const c10::Storage& host, const c10::Storage& to);

  bool done() const;

  /// The host waits: needed before it reads or frees its side.
  void wait() const;

  /// The device's current stream waits, as of what it is given from now on; the host does not.
  void wait_on_stream() const;

 private:
  struct State;
  SideCopy(const c10::Storage& from, const c10::Storage& to, c10::Device device);
  std::shared_ptr<State> state_;
};

/// Whether LibTorch has a pool of host memory that the accelerator of this process reaches by
/// itself. What goes back to it is not used again before copies on any stream have ended.
bool has_pinned_memory();

/// Of that pool, else ordinary memory.
c10::Storage pinned_storage(std::size_t bytes);

}  // namespace reprise::detail
