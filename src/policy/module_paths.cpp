// SPDX-License-Identifier: BSD-3-Clause
#include "policy/module_paths.h"

#include <torch/nn/module.h>
#include <torch/script.h>

#include "torch/parameter_path.h"

namespace reprise {
namespace {

void add_tensor(ModulePaths::Entries& entries, const std::string& model, const std::string& name,
                const at::Tensor& tensor, bool parameter) {
  if (!tensor.defined()) return;
  using Entry = ModulePaths::Entries::Entry;
  entries.list.push_back(Entry{detail::module_of_parameter(model, name),
                               Entry::WeakTensor(tensor.getIntrusivePtr()), parameter});
}

}  // namespace

ModulePaths::ModulePaths() : entries_(std::make_shared<Entries>()) {}

ModulePaths::ModulePaths(const torch::nn::Module& module, const std::string& name) : ModulePaths() {
  add(module, name);
}

ModulePaths::ModulePaths(const torch::jit::Module& module, const std::string& name)
    : ModulePaths() {
  add(module, name);
}

ModulePaths& ModulePaths::add(const torch::nn::Module& module, const std::string& name) {
  for (const auto& item : module.named_parameters()) {
    add_tensor(*entries_, name, item.key(), item.value(), true);
  }
  for (const auto& item : module.named_buffers()) {
    add_tensor(*entries_, name, item.key(), item.value(), false);
  }
  return *this;
}

ModulePaths& ModulePaths::add(const torch::jit::Module& module, const std::string& name) {
  for (const auto& item : module.named_parameters()) {
    add_tensor(*entries_, name, item.name, item.value, true);
  }
  for (const auto& item : module.named_buffers()) {
    add_tensor(*entries_, name, item.name, item.value, false);
  }
  return *this;
}

}  // namespace reprise
