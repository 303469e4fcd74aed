// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// LibTorch asks its autograd engine which hooks apply to a tensor that is about to be saved, and
// the C++ engine answers "none". Ours answers from the hook stack, and forwards everything else to
// the engine that was there before.

namespace reprise::detail {

/// Installs our engine on the first call. Thread-safe, also beside a running backward pass.
/// Throws Error when another library has replaced our engine since.
void ensure_engine();

}  // namespace reprise::detail
