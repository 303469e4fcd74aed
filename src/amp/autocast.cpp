// SPDX-License-Identifier: BSD-3-Clause
#include "torch/autocast.h"

#include <string>

#include <reprise/amp.h>
#include <reprise/error.h>

namespace reprise {

Autocast::Autocast(c10::DeviceType device, c10::ScalarType dtype, bool enabled) : device_(device) {
  if (!detail::autocast_available(device)) {
    throw UsageError("Autocast: LibTorch has none for " + c10::DeviceTypeName(device, true),
                     "use it for cpu, cuda and other accelerators with kernels of their own");
  }
  if (dtype != c10::kHalf && dtype != c10::kBFloat16) {
    throw UsageError(std::string("Autocast: ") + c10::toString(dtype) + " is no lower precision",
                     "use c10::kBFloat16 or c10::kHalf");
  }
  const detail::AutocastSettings before = detail::autocast_settings(device);
  enabled_before_ = before.enabled;
  dtype_before_ = before.dtype;
  detail::enter_autocast();
  detail::set_autocast(device, {enabled, dtype});
}

Autocast::~Autocast() {
  detail::leave_autocast();
  detail::set_autocast(device_, {enabled_before_, dtype_before_});
}

}  // namespace reprise
