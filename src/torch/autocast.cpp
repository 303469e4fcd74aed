// SPDX-License-Identifier: BSD-3-Clause
#include "torch/autocast.h"

#include <ATen/autocast_mode.h>

namespace reprise::detail {

bool autocast_available(c10::DeviceType device) {
  return at::autocast::is_autocast_available(device);
}

AutocastSettings autocast_settings(c10::DeviceType device) {
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

void set_autocast(c10::DeviceType device, const AutocastSettings& settings) {
  at::autocast::set_autocast_enabled(device, settings.enabled);
  at::autocast::set_autocast_dtype(device, settings.dtype);
}

void enter_autocast() { at::autocast::increment_nesting(); }

void leave_autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace reprise::detail
