// SPDX-License-Identifier: BSD-3-Clause
#include "torch/environment.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>

namespace reprise::detail {
namespace {

// LibTorch can set it, but does not tell; arithmetic does.
bool flushes_denormals() {
  volatile float tiny = 1e-40F;
  volatile float one = 1.0F;
  return tiny * one == 0.0F;
}

}  // namespace

Numerics Numerics::capture() {
  Numerics now;
  now.default_dtype_ = c10::get_default_dtype_as_scalartype();
  now.threads_ = at::get_num_threads();
  now.flush_denormal_ = flushes_denormals();
  return now;
}

// They are dear to set, and some are shared with other threads: touch them only if they differ.
void Numerics::apply() const {
  if (c10::get_default_dtype_as_scalartype() != default_dtype_) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(default_dtype_));
  }
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  if (flushes_denormals() != flush_denormal_) at::globalContext().setFlushDenormal(flush_denormal_);
}

Environment Environment::capture() {
  Environment now;
  const auto add = [&](c10::DeviceType device) {
    now.autocast_.emplace_back(device, autocast_settings(device));
  };
  add(c10::kCPU);
  const auto accelerator = at::accelerator::getAccelerator();
  if (accelerator && autocast_available(*accelerator)) add(*accelerator);
  now.autocast_cache_ = at::autocast::is_autocast_cache_enabled();
  if (accelerator) now.current_device_ = at::accelerator::getDeviceIndex();
  now.numerics_ = Numerics::capture();
  return now;
}

void Environment::apply() const {
  for (const auto& [device, settings] : autocast_) set_autocast(device, settings);
  at::autocast::set_autocast_cache_enabled(autocast_cache_);
  if (current_device_ && at::accelerator::getDeviceIndex() != *current_device_) {
    at::accelerator::setDeviceIndex(*current_device_);
  }
  numerics_.apply();
}

NumericsReplay::NumericsReplay(const Numerics& numerics) : before_(Numerics::capture()) {
  numerics.apply();
}

NumericsReplay::~NumericsReplay() { before_.apply(); }

EnvironmentReplay::EnvironmentReplay(const Environment& environment)
    : before_(Environment::capture()) {
  enter_autocast();
  environment.apply();
}

EnvironmentReplay::~EnvironmentReplay() {
  leave_autocast();
  before_.apply();
}

}  // namespace reprise::detail
