// SPDX-License-Identifier: BSD-3-Clause
#include "torch/below_autograd.h"

namespace reprise::detail {

BelowAutograd::BelowAutograd()
    : keys_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
            c10::DispatchKeySet(c10::DispatchKey::Python) |
            c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot)) {}

}  // namespace reprise::detail
