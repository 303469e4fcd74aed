// SPDX-License-Identifier: BSD-3-Clause
#include "torch/below_autograd.h"

#include "torch/meta_mode.h"

namespace reprise::detail {
namespace {

// A tensor without memory must not reach a kernel: the mode that knows shapes alone stays.
c10::DispatchKeySet above() {
  const c10::DispatchKeySet differentiating =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  if (MetaMode::current() != nullptr) return differentiating;
  return differentiating | c10::DispatchKeySet(c10::DispatchKey::Python) |
         c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot);
}

}  // namespace

BelowAutograd::BelowAutograd() : keys_(above()) {}

}  // namespace reprise::detail
