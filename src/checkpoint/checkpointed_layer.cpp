// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/checkpointed_layer.h"

#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <reprise/error.h>

namespace reprise {
namespace {

using at::Tensor;
using torch::nn::AnyModule;
using torch::nn::AnyValue;

constexpr std::size_t kMaxArguments = 10;

/// Calls `visit` for the tensors in a value, if its type is one of these.
template <class... Types, class Visitor>
void visit_types(AnyValue& value, Visitor&& visit) {
  const auto visit_if = [&](auto* content) {
    if (content != nullptr) detail::visit_nested(*content, visit);
    return content != nullptr;
  };
  (void)(visit_if(value.try_get<Types>()) || ...);
}

template <class Visitor>
void visit_tensors(AnyValue& value, Visitor&& visit) {
  using Pair = std::tuple<Tensor, Tensor>;
  visit_types<Tensor, std::vector<Tensor>, std::optional<Tensor>, std::pair<Tensor, Tensor>,
              std::tuple<Tensor>, Pair, std::tuple<Tensor, Tensor, Tensor>,
              std::tuple<Tensor, Tensor, Tensor, Tensor>, std::tuple<Tensor, Pair>>(value, visit);
}

/// Arguments or a result without their static types. The tensors are beside them, where
/// checkpoint() sees them.
struct Values {
  explicit Values(std::vector<AnyValue>&& of) : values(std::move(of)) {
    for (AnyValue& value : values) visit_tensors(value, detail::TensorTaker{tensors});
  }

  std::vector<AnyValue> put_together() && {
    const std::vector<Tensor> taken = std::move(tensors);  // not to outlive the call
    detail::TensorFiller filler{taken};
    for (AnyValue& value : values) visit_tensors(value, filler);
    return std::move(values);
  }

  std::vector<AnyValue> values;
  std::vector<Tensor> tensors;
};
auto reprise_fields(Values& values) { return std::tie(values.tensors); }

/// What AnyModule lacks: a call with as many arguments as there are.
template <std::size_t N = 0>
AnyValue call_with(AnyModule& module, std::vector<AnyValue>& values, const std::string& path) {
  if (values.size() == N) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return module.any_forward(std::move(values[I])...);
    }
    (std::make_index_sequence<N>{});
  }
  if constexpr (N < kMaxArguments) {
    return call_with<N + 1>(module, values, path);
  } else {
    throw UsageError("the checkpointed layer '" + path + "' was called with " +
                         std::to_string(values.size()) + " arguments",
                     "a layer that is wrapped from outside takes up to " +
                         std::to_string(kMaxArguments) +
                         ": pass a tuple or a struct, or make it a Checkpointed<M>");
  }
}

}  // namespace

namespace detail {

/// What stands in a Sequential for a layer. A module to AnyModule only, registered nowhere.
struct CheckpointedLayer : torch::nn::Module {
  CheckpointedLayer(AnyModule layer, CheckpointOptions named, std::string where)
      : plain(std::move(layer)), options(std::move(named)), path(std::move(where)) {}

  /// Tells AnyModule which holder to make: the one below, which takes any arguments.
  AnyValue forward(AnyValue value) { return plain.any_forward(std::move(value)); }

  AnyModule plain;
  CheckpointOptions options;
  std::string path;
};

}  // namespace detail
}  // namespace reprise

/// AnyModule's holder of it. LibTorch's own demands the types of the arguments at compile time.
template <>
struct torch::nn::AnyModuleHolder<reprise::detail::CheckpointedLayer, torch::nn::AnyValue>
    : torch::nn::AnyModulePlaceholder {
  using Layer = reprise::detail::CheckpointedLayer;

  explicit AnyModuleHolder(std::shared_ptr<Layer>&& layer)
      : AnyModulePlaceholder(typeid(Layer)), module(std::move(layer)) {}

  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    const auto call = [layer = module](reprise::Values arguments) {
      auto values = std::move(arguments).put_together();
      std::vector<AnyValue> result;
      result.push_back(reprise::call_with(layer->plain, values, layer->path));
      return reprise::Values(std::move(result));
    };
    auto result = reprise::checkpoint(module->options, call, reprise::Values(std::move(arguments)));
    return std::move(std::move(result).put_together().front());
  }

  std::shared_ptr<Module> ptr() override { return module->plain.ptr(); }

  std::unique_ptr<AnyModulePlaceholder> copy() const override {
    return std::make_unique<AnyModuleHolder>(*this);
  }

  std::unique_ptr<AnyModulePlaceholder> clone_module(std::optional<Device> device) const override {
    return std::make_unique<AnyModuleHolder>(
        std::make_shared<Layer>(module->plain.clone(device), module->options, module->path));
  }

  std::shared_ptr<Layer> module;
};

namespace reprise::detail {

AnyModule wrap_layer(AnyModule plain, CheckpointOptions options, std::string path) {
  return AnyModule(
      std::make_shared<CheckpointedLayer>(std::move(plain), std::move(options), std::move(path)));
}

bool is_wrapped(const AnyModule& element) {
  return element.type_info() == typeid(CheckpointedLayer);
}

AnyModule unwrap_layer(AnyModule& element) { return element.get<CheckpointedLayer>().plain; }

}  // namespace reprise::detail
