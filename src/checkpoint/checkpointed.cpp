// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <reprise/checkpointed.h>
#include <reprise/error.h>

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include "torch/warning.h"

// A Sequential calls its elements through AnyModules, and has its submodules registered beside
// them. So a layer is wrapped by another AnyModule in the same place, which still says that the
// layer is its module.

namespace reprise {
namespace {

using at::Tensor;
using torch::nn::AnyModule;
using torch::nn::AnyValue;
using torch::nn::SequentialImpl;

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

/// Arguments without their static types. The tensors are beside them, where checkpoint() sees them.
struct Arguments {
  explicit Arguments(std::vector<AnyValue>&& arguments) : values(std::move(arguments)) {
    for (AnyValue& value : values) visit_tensors(value, Taker{tensors});
  }

  std::vector<AnyValue> put_together() && {
    for (AnyValue& value : values) visit_tensors(value, Filler{tensors.begin()});
    return std::move(values);
  }

  struct Taker {
    std::vector<Tensor>& tensors;
    void operator()(Tensor& tensor) { tensors.push_back(std::exchange(tensor, Tensor())); }
    void operator()(at::Generator&) {}
  };
  struct Filler {
    std::vector<Tensor>::iterator next;
    void operator()(Tensor& tensor) { tensor = std::move(*next++); }
    void operator()(at::Generator&) {}
  };

  std::vector<AnyValue> values;
  std::vector<Tensor> tensors;
};
auto reprise_fields(Arguments& arguments) { return std::tie(arguments.tensors); }

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

CheckpointedBase::~CheckpointedBase() = default;

void throw_null_module() {
  throw UsageError("Checkpointed: the existing module is null",
                   "give a holder that is not empty, or the arguments of the constructor");
}

void throw_unshared_module() {
  throw UsageError("a Checkpointed module that no shared_ptr holds cannot be kept for its replay",
                   "make it by its holder, Checkpointed<M>, or by std::make_shared");
}

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

template <>
struct torch::nn::AnyModuleHolder<reprise::detail::CheckpointedLayer, torch::nn::AnyValue>
    : torch::nn::AnyModulePlaceholder {
  using Layer = reprise::detail::CheckpointedLayer;

  explicit AnyModuleHolder(std::shared_ptr<Layer>&& layer)
      : AnyModulePlaceholder(typeid(Layer)), module(std::move(layer)) {}

  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    const auto call = [layer = module](reprise::Arguments arguments) {
      auto values = std::move(arguments).put_together();
      return reprise::call_with(layer->plain, values, layer->path);
    };
    return reprise::checkpoint(module->options, call, reprise::Arguments(std::move(arguments)));
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

namespace reprise {
namespace {

using detail::CheckpointedLayer;

bool is_wrapped(const AnyModule& element) {
  return element.type_info() == typeid(CheckpointedLayer);
}

void unwrap(AnyModule& element) {
  AnyModule plain = element.get<CheckpointedLayer>().plain;  // the element goes with its module
  element = std::move(plain);
}

/// Visits the layers of every Sequential in a model: visit(element, index, count, path) says
/// whether to look inside the layer.
template <class Visitor>
class Walk {
 public:
  explicit Walk(Visitor visit) : visit_(std::move(visit)) {}

  void enter(torch::nn::Module& module, const std::string& path) {
    if (!seen_.insert(&module).second) return;
    std::set<const torch::nn::Module*> closed;
    if (auto* sequential = dynamic_cast<SequentialImpl*>(&module)) {
      closed = visit_layers(*sequential, path);
    }
    for (const auto& child : module.named_children()) {
      if (child.value() == nullptr || closed.count(child.value().get()) != 0) continue;
      enter(*child.value(), join(path, child.key()));
    }
  }

 private:
  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  std::set<const torch::nn::Module*> visit_layers(SequentialImpl& sequential,
                                                  const std::string& path) {
    std::set<const torch::nn::Module*> closed;
    const auto children = sequential.named_children();
    const auto count = static_cast<int64_t>(sequential.size());
    for (int64_t i = 0; i < count; ++i) {
      AnyModule& element = *(sequential.begin() + i);
      const auto module = element.ptr();
      const auto child = std::find_if(children.begin(), children.end(),
                                      [&](const auto& item) { return item.value() == module; });
      const std::string name = child == children.end() ? std::to_string(i) : child->key();
      if (!visit_(element, i, count, join(path, name))) closed.insert(module.get());
    }
    return closed;
  }

  Visitor visit_;
  std::set<const torch::nn::Module*> seen_;
};

void check_count(int64_t n, int64_t least, const std::string& what) {
  if (n >= least) return;
  throw UsageError("LayerSelection::" + what + "(" + std::to_string(n) + ")",
                   "give a number of at least " + std::to_string(least));
}

}  // namespace

LayerSelection::LayerSelection(Predicate predicate, int64_t stride, std::string label)
    : predicate_(std::move(predicate)), stride_(stride), label_(std::move(label)) {}

LayerSelection LayerSelection::all() { return {nullptr, 1, "all"}; }

LayerSelection LayerSelection::every_nth(int64_t n) {
  check_count(n, 1, "every_nth");
  return {nullptr, n, "every_nth(" + std::to_string(n) + ")"};
}

LayerSelection LayerSelection::where(Predicate predicate, const std::string& label) {
  if (predicate == nullptr) {
    throw UsageError("LayerSelection::where(): the predicate '" + label + "' is empty",
                     "give a function of a path and a module");
  }
  return {std::move(predicate), 1, label};
}

LayerSelection& LayerSelection::leave_first(int64_t n) {
  check_count(n, 0, "leave_first");
  return leave_first_ = n, *this;
}

LayerSelection& LayerSelection::leave_last(int64_t n) {
  check_count(n, 0, "leave_last");
  return leave_last_ = n, *this;
}

LayerSelection::Verdict LayerSelection::verdict(int64_t index, int64_t count,
                                                const std::string& path,
                                                const torch::nn::Module& module) const {
  if (index < leave_first_ || index >= count - leave_last_) return Verdict::leave;
  if (predicate_ != nullptr) {
    return predicate_(path, module) ? Verdict::wrap : Verdict::look_inside;
  }
  return index % stride_ == stride_ - 1 ? Verdict::wrap : Verdict::leave;
}

int64_t apply_checkpointing(torch::nn::Module& model, const LayerSelection& selection,
                            const CheckpointOptions& options) {
  int64_t wrapped = 0, layers = 0;
  const auto visit = [&](AnyModule& element, int64_t index, int64_t count,
                         const std::string& path) {
    ++layers;
    const auto module = element.ptr();
    const auto verdict = selection.verdict(index, count, path, *module);
    const bool own = dynamic_cast<const detail::CheckpointedBase*>(module.get()) != nullptr;
    if (verdict == LayerSelection::Verdict::wrap && !own) {
      ++wrapped;
      if (is_wrapped(element)) unwrap(element);
      CheckpointOptions named = options;
      named.name(options.name().empty() ? path : options.name() + ", " + path);
      element = AnyModule(std::make_shared<CheckpointedLayer>(element, std::move(named), path));
    }
    return verdict == LayerSelection::Verdict::look_inside && !own && !is_wrapped(element);
  };
  Walk(visit).enter(model, "");
  if (wrapped == 0) {
    detail::warn("reprise: apply_checkpointing(): the selection '" + selection.label() +
                 "' chose none of " + std::to_string(layers) +
                 " layers; a layer is an element of a torch::nn::Sequential, other modules are "
                 "wrapped by Checkpointed<M>");
  }
  return wrapped;
}

int64_t remove_checkpointing(torch::nn::Module& model) {
  int64_t restored = 0;
  const auto visit = [&](AnyModule& element, int64_t, int64_t, const std::string&) {
    if (is_wrapped(element)) {
      ++restored;
      unwrap(element);
    }
    return true;
  };
  Walk(visit).enter(model, "");
  return restored;
}

}  // namespace reprise
