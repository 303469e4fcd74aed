// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

// Where operators run as without any mode, a MetaScope's too: for tensors that have memory.

namespace reprise::detail {

class BelowModes {
 private:
  const c10::impl::ExcludeDispatchKeyGuard keys_{
      c10::DispatchKeySet(c10::DispatchKey::Python) |
      c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot)};
};

}  // namespace reprise::detail
