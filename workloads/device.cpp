// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/error.h>

#include <ATen/DeviceAccelerator.h>

#include "workloads/workload.h"

// Devices by name, through LibTorch's device-generic interfaces.

namespace reprise::workloads {
namespace {

std::string present_devices() {
  std::string text = "devices here: cpu";
  const auto accelerator = at::accelerator::getAccelerator();
  if (!accelerator) return text + "; LibTorch sees no accelerator";
  for (c10::DeviceIndex i = 0; i < at::accelerator::deviceCount(); ++i) {
    text += ", " + torch::Device(*accelerator, i).str();
  }
  return text;
}

std::optional<torch::Device> device_of(const std::string& text) {
  try {
    return torch::Device(text);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace

torch::Device parse_device(const std::string& text) {
  const auto device = device_of(text);
  if (!device) throw UsageError("--device: '" + text + "' is no device", present_devices());
  if (device->is_cpu()) return torch::kCPU;
  const auto accelerator = at::accelerator::getAccelerator();
  const bool present = accelerator && *accelerator == device->type() &&
                       device->index() < at::accelerator::deviceCount();
  if (!present) throw UsageError("--device: '" + text + "' is not there", present_devices());
  return {device->type(), device->has_index() ? device->index() : c10::DeviceIndex(0)};
}

void synchronize(torch::Device device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

}  // namespace reprise::workloads
