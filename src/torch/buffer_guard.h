// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

namespace reprise::detail {

/// While it lives, notes what this thread's operators write in place to storages that existed
/// before it, whether their schemas say so or not; at its end, puts the contents back, and the
/// versions too, since nothing has changed then. Storages that do not own their memory, which may
/// be gone by then, are left alone. Guards nest.
class BufferGuard {
 public:
  BufferGuard();
  ~BufferGuard();
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

  struct State;

 private:
  friend struct BufferWatch;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::detail
