// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/script_module.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unordered_set>

#include <reprise/error.h>

namespace reprise::workloads {
namespace {

using torch::jit::IValue;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

torch::jit::Module load_script(const std::string& path, torch::Device device) {
  const auto absent = [&](const std::string& why) {
    throw UsageError("cannot open '" + path + "': " + why,
                     "name a TorchScript module, as script:FILE.pt");
  };
  if (std::filesystem::is_directory(path)) absent("is a folder");
  if (!std::ifstream(path)) absent(std::strerror(errno));
  const auto reject = [&](const std::string& why) {
    throw Error("'" + path + "' is no TorchScript module (" + first_line(why) + ")",
                "save one with torch.jit.script(model).save(\"FILE.pt\"); a file of weights alone "
                "has no code");
  };
  torch::jit::Module script;
  try {
    script = torch::jit::load(path, device);
  } catch (const c10::Error& error) {
    reject(error.what_without_backtrace());
  } catch (const std::exception& error) {
    reject(error.what());
  }
  return script;
}

// Of forward(), without self.
std::vector<c10::Argument> arguments_of(const torch::jit::Module& script) {
  const auto method = script.find_method("forward");
  if (!method) return {};
  const auto& all = method->function().getSchema().arguments();
  return {all.begin() + 1, all.end()};
}

bool takes_tensor(const c10::Argument& argument) {
  return c10::TensorType::get()->isSubtypeOf(*argument.type());
}

void check_forward(const std::string& path, const torch::jit::Module& script) {
  const std::vector<c10::Argument> arguments = arguments_of(script);
  const auto needed =
      std::count_if(arguments.begin(), arguments.end(),
                    [](const c10::Argument& argument) { return !argument.default_value(); });
  if (!arguments.empty() && needed <= 1 && takes_tensor(arguments.front())) return;
  std::string list;
  for (const c10::Argument& argument : arguments) {
    list += (list.empty() ? "" : ", ") + argument.type()->str() + " " + argument.name();
  }
  throw Error("'" + path + "': its forward(" + list + ") does not take one tensor",
              "wrap it in a module that makes what it needs of one tensor");
}

// Tensors that stand in two places count once, as in LibTorch's own list of parameters they would
// count twice.
void mirror(const torch::jit::Module& script, torch::nn::Module& module,
            std::unordered_set<const c10::TensorImpl*>& seen) {
  for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
    if (!seen.insert(parameter.value.unsafeGetTensorImpl()).second) continue;
    module.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  }
  for (const auto& buffer : script.named_buffers(/*recurse=*/false)) {
    if (!seen.insert(buffer.value.unsafeGetTensorImpl()).second) continue;
    module.register_buffer(buffer.name, buffer.value);
  }
  for (const auto& child : script.named_children()) {
    mirror(child.value,
           *module.register_module(child.name, std::make_shared<torch::nn::Module>(child.name)),
           seen);
  }
}

void collect(const IValue& value, State& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().is_floating_point()) tensors.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const IValue& element : value.toTupleRef().elements()) collect(element, tensors);
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) collect(element, tensors);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) collect(entry.value(), tensors);
  }
}

StateLayer layer_of(const torch::jit::Module& script) {
  return [script = torch::jit::Module(script)](const State& state) mutable {
    const torch::jit::GraphOptimizerEnabledGuard unoptimised(false);
    State tensors;
    collect(script.forward({state.front()}), tensors);
    return tensors;
  };
}

bool maps_one_tensor(const torch::jit::Module& script) {
  const std::vector<c10::Argument> arguments = arguments_of(script);
  if (arguments.size() != 1 || !takes_tensor(arguments.front())) return false;
  const auto& results = script.get_method("forward").function().getSchema().returns();
  return results.size() == 1 && results.front().type()->kind() == c10::TypeKind::TensorType;
}

// "__torch__.torch.nn.modules.container.Sequential", with or without a part that makes it unique.
bool is_sequential(const torch::jit::Module& script) {
  const auto name = script.type()->name();
  return name && name->name() == "Sequential" &&
         name->prefix().starts_with("__torch__.torch.nn.modules.container");
}

std::vector<StateLayer> layers_of(const torch::jit::Module& script) {
  std::vector<StateLayer> layers;
  bool chain = is_sequential(script);
  if (chain) {
    for (const torch::jit::Module& child : script.children()) {
      chain = chain && maps_one_tensor(child);
      if (chain) layers.push_back(layer_of(child));
    }
  }
  if (chain && !layers.empty()) return layers;
  return {layer_of(script)};
}

}  // namespace

ScriptModule::ScriptModule(const std::string& path, torch::Device device)
    : torch::nn::Module("script"), script_(load_script(path, device)) {
  check_forward(path, script_);
  std::unordered_set<const c10::TensorImpl*> seen;
  mirror(script_, *this, seen);
  const auto all = parameters();
  if (std::none_of(all.begin(), all.end(), [](const auto& p) { return p.requires_grad(); })) {
    throw Error("'" + path + "' has no parameters to train",
                "were they frozen before it was saved? Save the model as it is trained");
  }
  train();
  layers_ = layers_of(script_);
}

void ScriptModule::train(bool on) {
  torch::nn::Module::train(on);
  script_.train(on);
}

}  // namespace reprise::workloads
