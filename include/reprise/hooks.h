// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

// Saved-tensor hooks: what Python knows as torch.autograd.graph.saved_tensors_hooks, for C++.
//
// While a SavedTensorHooks lives, `pack` is called for each tensor that autograd saves on this
// thread, and what it returns is kept in the tensor's place; `unpack` makes the tensor from it when
// the backward pass asks. Only the innermost pair applies. The hooks live on LibTorch's own stack,
// so they follow at::ThreadLocalState into other threads.

namespace reprise {

namespace detail {

/// What is kept in the place of one saved tensor. unpack() may run on any thread, more than once.
class REPRISE_API PackedTensor {
 public:
  virtual ~PackedTensor();
  virtual at::Tensor unpack() = 0;
};

using PackFunction = std::function<std::shared_ptr<PackedTensor>(const at::Tensor&)>;

/// Puts a pack function on the hook stack for its lifetime.
class REPRISE_API HookScope {
 public:
  explicit HookScope(PackFunction pack);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
};

template <class Packed, class Unpack>
class PackedBy final : public PackedTensor {
 public:
  PackedBy(Packed packed, std::shared_ptr<Unpack> unpack)
      : packed_(std::move(packed)), unpack_(std::move(unpack)) {}
  at::Tensor unpack() override { return (*unpack_)(packed_); }

 private:
  Packed packed_;
  std::shared_ptr<Unpack> unpack_;
};

}  // namespace detail

/// Replaces every tensor that autograd saves on this thread while the object lives.
///
/// `pack(const at::Tensor&)` returns anything that can be moved; `unpack(const P&)` returns a
/// tensor of the same shape, dtype and device. A pack that keeps its argument itself (not a
/// detached copy of it) makes a reference cycle when the tensor is an output of the operator that
/// saves it; return `t.detach()`. Neither may write to the tensor. Exceptions propagate to the
/// forward or backward. Throws Error when LibTorch's hooks are disabled on this thread, or when
/// another library has replaced the autograd engine after Reprise was set up.
class SavedTensorHooks {
 public:
  template <class Pack, class Unpack>
  SavedTensorHooks(Pack pack, Unpack unpack)
      : scope_([pack = std::make_shared<Pack>(std::move(pack)),
                unpack = std::make_shared<Unpack>(std::move(unpack))](
                   const at::Tensor& tensor) -> std::shared_ptr<detail::PackedTensor> {
          using Packed = std::decay_t<decltype((*pack)(tensor))>;
          return std::make_shared<detail::PackedBy<Packed, Unpack>>((*pack)(tensor), unpack);
        }) {}

 private:
  detail::HookScope scope_;
};

}  // namespace reprise
