// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

// LibTorch asks its autograd engine which hooks apply to a tensor that is about to be saved, and
// the C++ engine answers "none". Ours answers from the hook stack, and forwards everything else to
// the engine that was there before.

namespace reprise::detail {

/// Installs our engine on the first call. Thread-safe, also beside a running backward pass.
/// Throws Error when another library has replaced our engine since.
void ensure_engine();

/// `function(failed, last)` is called on the thread of a backward pass when the pass has ended, by
/// an exception or not; `last`: no other one runs in the process. One function for the process; it
/// must not throw. Backward passes are noticed from the first ensure_engine() on.
void when_passes_end(void (*function)(bool failed, bool last));

/// Whether a backward pass runs in the process.
bool passes_are_running();

/// When the innermost backward pass began that this thread has begun and that still runs or, on a
/// thread that LibTorch runs passes on, the only one in the process: nanoseconds of the steady
/// clock. 0 if that is not known.
int64_t current_pass_began();

/// After a pass that ended by an exception, LibTorch keeps tasks with their gradients in a queue of
/// this thread; a pass over one number, which comes last in the queue, clears it. Does nothing
/// inside of a pass. Does not throw.
void clear_failed_passes();

}  // namespace reprise::detail
