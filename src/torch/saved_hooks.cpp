// SPDX-License-Identifier: BSD-3-Clause
#include "torch/saved_hooks.h"

#include <utility>

#include <reprise/error.h>
#include <reprise/hooks.h>

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "torch/engine.h"
#include "torch/interpreter.h"

namespace reprise::detail {
namespace {

class PackObject final : public ForeignObject {
 public:
  explicit PackObject(PackFunction pack) : pack(std::move(pack)) {}
  const PackFunction pack;
};

class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(c10::SafePyObject entry) : entry_(std::move(entry)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    // The graph must hold what was packed, but not the packing function: it may refer to the graph.
    const c10::SafePyObject entry = std::move(*std::exchange(entry_, std::nullopt));
    packed_ = static_cast<PackObject&>(from_safe_object(entry.ptr(interpreter()))).pack(tensor);
  }

  at::Tensor call_unpack_hook() override {
    // The node may be released on another thread while the tensor is still being made.
    const std::shared_ptr<PackedTensor> packed = packed_;
    return packed->unpack();
  }

 private:
  std::optional<c10::SafePyObject> entry_;
  std::shared_ptr<PackedTensor> packed_;
};

}  // namespace

PackedTensor::~PackedTensor() = default;

HookScope::HookScope(PackFunction pack) {
  ensure_engine();
  if (const auto& reason = at::SavedTensorDefaultHooks::get_disabled_error_message()) {
    throw Error("saved-tensor hooks are disabled on this thread: " + *reason,
                "leave the scope that disabled them (at::SavedTensorDefaultHooks::disable) first");
  }
  // One object serves as both halves of the pair; unpacking goes through what pack() returned.
  const c10::SafePyObject entry = to_safe_object(std::make_unique<PackObject>(std::move(pack)));
  at::SavedTensorDefaultHooks::push_hooks(entry, entry);
}

HookScope::~HookScope() { at::SavedTensorDefaultHooks::pop_hooks(); }

std::unique_ptr<torch::autograd::SavedVariableHooks> make_saved_variable_hooks(
    c10::SafePyObject entry) {
  return std::make_unique<Hooks>(std::move(entry));
}

}  // namespace reprise::detail
