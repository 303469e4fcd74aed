// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <reprise/checkpoint.h>
#include <reprise/export.h>

#include <c10/core/Device.h>

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

// What every Checkpointed<M> shares: construction, options, clone(), and the call itself.

namespace reprise::detail {

/// The module class of a holder, or of itself.
template <class M>
struct ModuleOf {
  using Type = M;
};
template <class M>
requires requires { typename M::ContainedType; }
struct ModuleOf<M> {
  using Type = typename M::ContainedType;
};

template <class Member>
struct SignatureOf;
template <class Function, class Class>
struct SignatureOf<Function Class::*> {
  using Type = Function;
};

template <class Plain>
struct ForwardOf {
  using Type = void;
};
template <class Plain>
requires requires { &Plain::forward; }
struct ForwardOf<Plain> {
  using Type = typename SignatureOf<decltype(&Plain::forward)>::Type;
};

/// "Tensor(const Tensor&)": the type of forward() if it is one function, void if it is overloaded
/// or a template.
template <class Plain>
using ForwardSignature = typename ForwardOf<Plain>::Type;

/// A holder of, or pointer to, an existing module.
template <class T, class Plain>
concept HoldsModule = std::convertible_to<T, std::shared_ptr<Plain>> || requires(const T& holder) {
  { holder.ptr() } -> std::convertible_to<std::shared_ptr<Plain>>;
};

/// Arguments of the module's own constructor: not options, nor a module to share with.
template <class Plain, class... Args>
concept Constructs = std::is_constructible_v<Plain, Args...> &&
    !(... || std::same_as<std::remove_cvref_t<Args>, CheckpointOptions>)&&!(
        sizeof...(Args) == 1 && (... || (HoldsModule<std::remove_cvref_t<Args>, Plain> ||
                                         std::derived_from<std::remove_cvref_t<Args>, Plain>)));

[[noreturn]] REPRISE_API void throw_null_module();
[[noreturn]] REPRISE_API void throw_unshared_module();

template <class Plain, class Existing>
std::shared_ptr<Plain> existing_module(const Existing& existing) {
  std::shared_ptr<Plain> module;
  if constexpr (std::convertible_to<const Existing&, std::shared_ptr<Plain>>) {
    module = existing;
  } else if (existing) {
    module = existing.ptr();
  }
  if (module == nullptr) throw_null_module();
  return module;
}

/// Runs Plain's own forward(). The module may be gone before the backward pass: the region takes
/// its share of it.
template <class Plain, class Called, class Owner, class... Args>
decltype(auto) checkpoint_forward(const CheckpointOptions& options, Called& module, Owner owner,
                                  Args&&... args) {
  if (owner == nullptr) throw_unshared_module();
  const auto forward =
      [&module, owner = std::move(owner)]<class... In>(In&&... in) noexcept(
          noexcept(module.Plain::forward(std::forward<In>(in)...))) -> decltype(auto) {
    return module.Plain::forward(std::forward<In>(in)...);
  };
  return reprise::checkpoint(options, forward, std::forward<Args>(args)...);
}

/// Tells checkpointed modules from others, and holds their options.
class REPRISE_API CheckpointedBase {
 public:
  CheckpointedBase() = default;
  explicit CheckpointedBase(CheckpointOptions options) : checkpoint_options_(std::move(options)) {}
  virtual ~CheckpointedBase();

  const CheckpointOptions& checkpoint_options() const { return checkpoint_options_; }
  void checkpoint_options(CheckpointOptions options) { checkpoint_options_ = std::move(options); }

 protected:
  CheckpointedBase(const CheckpointedBase&) = default;
  CheckpointedBase& operator=(const CheckpointedBase&) = default;

 private:
  CheckpointOptions checkpoint_options_;
};

/// `Self` is the class that derives from this one and adds forward().
template <class Plain, class Self>
class CheckpointedModule : public Plain, public CheckpointedBase {
 public:
  template <class... Args>
  requires Constructs<Plain, Args...>
  explicit CheckpointedModule(Args&&... args) : Plain(std::forward<Args>(args)...) {}

  template <class... Args>
  requires Constructs<Plain, Args...>
  explicit CheckpointedModule(CheckpointOptions options, Args&&... args)
      : Plain(std::forward<Args>(args)...), CheckpointedBase(std::move(options)) {}

  template <HoldsModule<Plain> Existing>
  explicit CheckpointedModule(const Existing& existing)
      : CheckpointedModule(CheckpointOptions(), existing) {}

  template <HoldsModule<Plain> Existing>
  explicit CheckpointedModule(CheckpointOptions options, const Existing& existing)
      : Plain(std::as_const(*existing_module<Plain>(existing))),
        CheckpointedBase(std::move(options)) {}

  /// The module's own clone(), made a checkpointed one.
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<c10::Device>& device = std::nullopt) const override {
    auto plain = Plain::clone(device);
    if constexpr (std::is_copy_constructible_v<Plain>) {
      return std::make_shared<Self>(checkpoint_options(),
                                    std::dynamic_pointer_cast<Plain>(std::move(plain)));
    } else {
      return plain;
    }
  }

  /// forward(), with whatever arguments the module's own can be called with.
  template <class... Args>
  decltype(auto) checkpointed_forward(Args&&... args) {
    return checkpoint_forward<Plain>(checkpoint_options(), *this, this->weak_from_this().lock(),
                                     std::forward<Args>(args)...);
  }
  template <class... Args>
  decltype(auto) checkpointed_forward(Args&&... args) const {
    return checkpoint_forward<Plain>(checkpoint_options(), *this, this->weak_from_this().lock(),
                                     std::forward<Args>(args)...);
  }
};

}  // namespace reprise::detail
