// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reprise/detail/region.h>
#include <reprise/nested.h>

#include <c10/util/ArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

// Keeps a callable and its arguments so that the call can be made again, exactly as it was made.

namespace reprise::detail {

template <class F, class... Args>
concept Invocable = std::invocable<F, Args...>;

template <class F, class... Args>
concept PointsToModule = requires(F&& fn, Args&&... args) {
  fn->forward(std::forward<Args>(args)...);
};

template <class F, class... Args>
concept IsModule = requires(F&& fn, Args&&... args) {
  fn.forward(std::forward<Args>(args)...);
};

template <class F, class... Args>
concept RefersToModule = requires(F&& fn, Args&&... args) {
  fn.get().forward(std::forward<Args>(args)...);
};

template <class F, class... Args>
concept Callable = Invocable<F, Args...> || PointsToModule<F, Args...> || IsModule<F, Args...> ||
    RefersToModule<F, Args...>;

/// fn(args...), or forward(args...) of the module that `fn` is, points to or refers to.
template <class F, class... Args>
decltype(auto) call(F&& fn, Args&&... args) {
  static_assert(Callable<F, Args...>,
                "reprise: the function cannot be called with these arguments, and is no module "
                "whose forward() takes them (one that can only be moved is taken by const &)");
  // Holders come first: they claim to be callable even where their operator() does not compile.
  if constexpr (PointsToModule<F, Args...>) {
    return fn->forward(std::forward<Args>(args)...);
  } else if constexpr (Invocable<F, Args...>) {
    return std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
  } else if constexpr (IsModule<F, Args...>) {
    return fn.forward(std::forward<Args>(args)...);
  } else {
    return fn.get().forward(std::forward<Args>(args)...);  // std::ref(module)
  }
}

/// How an argument of type T (a forwarding reference) is kept and passed on. Views that own nothing
/// are kept as what they show, so that they cannot dangle; reference wrappers are unwrapped.
template <class T, class Plain = std::remove_cvref_t<T>>
struct Kept {
  using Type = std::decay_t<T>;
  static constexpr bool kCopyable = std::copy_constructible<Type>;
  static constexpr bool kIsReference = false;
  static_assert(kCopyable || std::is_rvalue_reference_v<T&&>,
                "reprise: an argument that cannot be copied must be moved in, or be passed by "
                "std::ref()");
  static_assert(!std::is_polymorphic_v<Plain>,
                "reprise: an object of a class with virtual functions, such as a module, must not "
                "be copied: pass its holder, a shared_ptr or std::ref()");

  /// Copies what can be copied, even from an rvalue: the first call still needs the original.
  static Type keep(std::remove_reference_t<T>& value) {
    if constexpr (kCopyable) {
      return value;
    } else {
      return std::move(value);
    }
  }

  /// Passes a fresh copy as the caller passed the original; what cannot be copied, as const.
  static decltype(auto) pass(Type& value) {
    if constexpr (!kCopyable) {
      return std::as_const(value);
    } else if constexpr (std::is_function_v<Plain>) {
      return (value);
    } else {
      return static_cast<T&&>(value);
    }
  }
};

template <class T, class U>
struct Kept<T, std::reference_wrapper<U>> {
  using Type = std::reference_wrapper<U>;
  static constexpr bool kCopyable = true;
  static constexpr bool kIsReference = true;
  static Type keep(Type value) { return value; }
  static U& pass(Type& value) { return value.get(); }
};

template <class T, class U>
struct Kept<T, c10::ArrayRef<U>> {
  using Type = std::vector<U>;
  static constexpr bool kCopyable = true;
  static constexpr bool kIsReference = false;
  static Type keep(c10::ArrayRef<U> value) { return value.vec(); }
  static c10::ArrayRef<U> pass(Type& value) { return value; }
};

template <class T, class U>
struct Kept<T, std::span<U>> {
  using Type = std::vector<std::remove_const_t<U>>;
  static constexpr bool kCopyable = true;
  static constexpr bool kIsReference = false;
  static Type keep(std::span<U> value) { return Type(value.begin(), value.end()); }
  static std::span<U> pass(Type& value) { return value; }
};

template <class T, class U>
struct Kept<T, std::optional<c10::ArrayRef<U>>> {
  using Type = std::optional<std::vector<U>>;
  static constexpr bool kCopyable = true;
  static constexpr bool kIsReference = false;
  static Type keep(const std::optional<c10::ArrayRef<U>>& value) {
    return value ? Type(value->vec()) : std::nullopt;
  }
  static std::optional<c10::ArrayRef<U>> pass(Type& value) {
    return value ? std::optional<c10::ArrayRef<U>>(*value) : std::nullopt;
  }
};

template <class T, class U>
struct Kept<T, c10::OptionalArrayRef<U>> {
  using Type = std::optional<std::vector<U>>;
  static constexpr bool kCopyable = true;
  static constexpr bool kIsReference = false;
  static Type keep(const c10::OptionalArrayRef<U>& value) {
    return value ? Type(value->vec()) : std::nullopt;
  }
  static c10::OptionalArrayRef<U> pass(Type& value) {
    return value ? c10::OptionalArrayRef<U>(c10::ArrayRef<U>(*value)) : std::nullopt;
  }
};

/// Arrays are copied, and passed on as arrays.
template <class T, class U, std::size_t N>
struct Kept<T, U[N]> {
  using Type = std::array<std::remove_const_t<U>, N>;
  static constexpr bool kCopyable = true;
  static constexpr bool kIsReference = false;
  static Type keep(const U (&value)[N]) { return std::to_array(value); }
  static std::remove_reference_t<T>& pass(Type& value) {
    return reinterpret_cast<std::remove_reference_t<T>&>(value);
  }
};

template <class T>
struct Kept<T, std::string_view> {
  using Type = std::string;
  static constexpr bool kCopyable = true;
  static constexpr bool kIsReference = false;
  static Type keep(std::string_view value) { return Type(value); }
  static std::string_view pass(Type& value) { return value; }
};

/// What the first call gets for an argument: what the caller wrote, unless it was moved in.
template <class T>
decltype(auto) pass_first(T&& original, typename Kept<T>::Type& kept) {
  if constexpr (!Kept<T>::kCopyable) {
    return std::as_const(kept);
  } else if constexpr (Kept<T>::kIsReference) {
    return original.get();
  } else {
    return std::forward<T>(original);
  }
}

/// Whether all tensors in a result of type R can be found, and replaced.
template <class R>
constexpr bool returns_tensors() {
  if constexpr (std::is_object_v<R> && !std::is_const_v<R> && std::move_constructible<R>) {
    return may_hold_tensors<R>() && holds_nothing_unseen<R>();
  } else {
    return false;
  }
}

/// Moves the tensors out of `value` into `tensors`.
struct TensorTaker {
  std::vector<at::Tensor>& tensors;
  void operator()(at::Tensor& tensor) { tensors.push_back(std::exchange(tensor, at::Tensor())); }
  void operator()(at::Generator&) {}
};

/// Puts them back, in the same order.
struct TensorFiller {
  const std::vector<at::Tensor>& tensors;
  std::size_t next = 0;
  void operator()(at::Tensor& tensor) { tensor = tensors[next++]; }
  void operator()(at::Generator&) {}
};

template <class F, class... Args>
class BoundCall final : public ReplayCall {
  using Function = Kept<F>;
  using Tuple = std::tuple<typename Kept<Args>::Type...>;
  static constexpr bool kConstCallable =
      Callable<const typename Function::Type&,
               decltype(Kept<Args>::pass(std::declval<typename Kept<Args>::Type&>()))...>;

 public:
  explicit BoundCall(std::remove_reference_t<F>& fn, std::remove_reference_t<Args>&... args)
      : fn_(Function::keep(fn)), args_(Kept<Args>::keep(args)...) {}

  /// The call as the user wrote it.
  decltype(auto) first_call(F&& fn, Args&&... args) {
    return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
      return call(pass_first<F>(std::forward<F>(fn), fn_),
                  pass_first<Args>(std::forward<Args>(args), std::get<I>(args_))...);
    }
    (std::index_sequence_for<Args...>{});
  }

  void take_arguments(std::vector<at::Tensor>& tensors,
                      std::vector<at::Generator>& generators) override {
    visit_arguments(args_, Taker{tensors, generators});
  }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& tensors) override {
    // A copy for each run: what the function does to its arguments must not reach the next replay.
    auto args = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Fresh<Args>...>(std::get<I>(args_)...);
    }
    (std::index_sequence_for<Args...>{});
    visit_arguments(args, TensorFiller{tensors});
    const auto again = [&]() -> decltype(auto) {
      return std::apply(
          [&](auto&... arg) -> decltype(auto) {
            if constexpr (kConstCallable) {
              return call(std::as_const(fn_), Kept<Args>::pass(arg)...);
            } else if constexpr (Function::kCopyable) {
              auto fn = fn_;
              return call(Function::pass(fn), Kept<Args>::pass(arg)...);
            } else {
              return call(fn_, Kept<Args>::pass(arg)...);
            }
          },
          args);
    };
    std::vector<at::Tensor> results;
    if constexpr (returns_tensors<decltype(again())>()) {
      auto result = again();
      visit_nested(result, TensorTaker{results});
    } else {
      again();
    }
    return results;
  }

  bool is_noexcept() const override { return std::is_nothrow_invocable_v<F, Args...>; }

 private:
  template <class T>
  using Fresh =
      std::conditional_t<Kept<T>::kCopyable, typename Kept<T>::Type, typename Kept<T>::Type&>;

  struct Taker {
    std::vector<at::Tensor>& tensors;
    std::vector<at::Generator>& generators;
    void operator()(at::Tensor& tensor) { tensors.push_back(std::exchange(tensor, at::Tensor())); }
    void operator()(at::Generator& generator) { generators.push_back(generator); }
  };

  // Arguments that cannot be copied are opaque: there is one of each, shared by all runs.
  template <class Arguments, class Visitor>
  static void visit_arguments(Arguments& args, Visitor visitor) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (visit_one<Kept<Args>::kCopyable>(std::get<I>(args), visitor), ...);
    }
    (std::index_sequence_for<Args...>{});
  }
  template <bool copyable, class T, class Visitor>
  static void visit_one(T& value, Visitor& visitor) {
    if constexpr (copyable) visit_nested(value, visitor);
  }

  typename Function::Type fn_;
  Tuple args_;
};

}  // namespace reprise::detail
