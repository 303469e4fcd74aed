// SPDX-License-Identifier: BSD-3-Clause
#include "torch/kernel_clock.h"

#include <ATen/DeviceAccelerator.h>

namespace reprise::detail {
namespace {

void wait_for_device() {
  static const bool present = at::accelerator::getAccelerator().has_value();
  if (present) at::accelerator::synchronizeDevice(at::accelerator::getDeviceIndex());
}

}  // namespace

KernelClock::KernelClock() {
  wait_for_device();
  start_ = std::chrono::steady_clock::now();
}

double KernelClock::milliseconds() const {
  wait_for_device();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
      .count();
}

}  // namespace reprise::detail
