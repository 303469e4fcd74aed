// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <reprise/checkpointed.h>
#include <reprise/error.h>

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include "checkpoint/checkpointed_layer.h"
#include "torch/warning.h"

namespace reprise {
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

}  // namespace detail

namespace {

using torch::nn::AnyModule;
using torch::nn::SequentialImpl;

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
      remove_checkpointing(*module);  // regions in a region would only replay more
      CheckpointOptions named = options;
      named.name(options.name().empty() ? path : options.name() + ", " + path);
      AnyModule plain = detail::is_wrapped(element) ? detail::unwrap_layer(element) : element;
      element = detail::wrap_layer(std::move(plain), std::move(named), path);
    }
    return verdict == LayerSelection::Verdict::look_inside && !own && !detail::is_wrapped(element);
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
    if (detail::is_wrapped(element)) {
      ++restored;
      element = detail::unwrap_layer(element);
    }
    return true;
  };
  Walk(visit).enter(model, "");
  return restored;
}

}  // namespace reprise
