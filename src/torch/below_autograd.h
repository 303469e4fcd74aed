// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

// Where operators are replayed: under autograd, version counting, autocast and every mode but a
// MetaScope.

namespace reprise::detail {

class BelowAutograd {
 public:
  BelowAutograd();

 private:
  c10::impl::ExcludeDispatchKeyGuard keys_;
  c10::AutoGradMode grad_{false};
};

}  // namespace reprise::detail
