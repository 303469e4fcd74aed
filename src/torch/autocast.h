// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

// Autocast of one type of device on this thread.

namespace reprise::detail {

struct AutocastSettings {
  bool enabled = false;
  c10::ScalarType dtype = c10::kBFloat16;
};

bool autocast_available(c10::DeviceType device);
AutocastSettings autocast_settings(c10::DeviceType device);
void set_autocast(c10::DeviceType device, const AutocastSettings& settings);

/// Between them, parameters that were cast are cached; the outermost leave empties the cache.
void enter_autocast();
void leave_autocast();

}  // namespace reprise::detail
