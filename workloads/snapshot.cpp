// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/snapshot.h"

#include <algorithm>
#include <utility>

#include <reprise/equality.h>

namespace reprise::workloads {
namespace {

std::vector<torch::Device> generator_devices(torch::Device device) {
  std::vector<torch::Device> devices = {torch::kCPU};
  if (!device.is_cpu()) devices.push_back(device);
  return devices;
}

}  // namespace

Snapshot::Snapshot(std::vector<torch::Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const torch::Tensor& tensor : tensors_) contents_.push_back(tensor.detach().clone());
}

void Snapshot::restore() const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(contents_[i]);
}

int64_t Snapshot::bytes() const {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : contents_) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

std::vector<torch::Tensor> state_of(torch::nn::Module& module) {
  std::vector<torch::Tensor> state = module.parameters();
  for (const torch::Tensor& buffer : module.buffers()) state.push_back(buffer);
  return state;
}

std::vector<torch::Tensor> generator_states(torch::Device device) {
  std::vector<torch::Tensor> states;
  for (const torch::Device& each : generator_devices(device)) {
    states.push_back(at::globalContext().defaultGenerator(each).get_state());
  }
  return states;
}

void set_generator_states(torch::Device device, const std::vector<torch::Tensor>& states) {
  const std::vector<torch::Device> devices = generator_devices(device);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    at::Generator generator = at::globalContext().defaultGenerator(devices[i]);
    generator.set_state(states.at(i));
  }
}

bool all_bit_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return bit_equal(x, y); });
}

double max_abs_difference(const std::vector<torch::Tensor>& a,
                          const std::vector<torch::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, reprise::max_abs_difference(a.at(i), b[i]));
  }
  return largest;
}

}  // namespace reprise::workloads
