// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/autocast_mode.h>

namespace reprise::tests {

/// Autocast on the CPU, on or off, while it lives.
class Autocast {
 public:
  explicit Autocast(bool on, at::ScalarType dtype = at::kBFloat16)
      : before_(at::autocast::is_autocast_enabled(at::kCPU)),
        dtype_(at::autocast::get_autocast_dtype(at::kCPU)) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, before_);
    at::autocast::set_autocast_dtype(at::kCPU, dtype_);
  }

 private:
  bool before_;
  at::ScalarType dtype_;
};

}  // namespace reprise::tests
