// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

// Finds the tensors and generators in a value, at any depth of nesting: optional, pair, tuple,
// array, and every container with begin(), end() and value_type (vector, list, map, ...).
//
// A struct of your own takes part by one function beside it, found by argument-dependent lookup,
// which returns its fields:
//
//     struct Batch { at::Tensor tokens, mask; int64_t length; };
//     inline auto reprise_fields(Batch& b) { return std::tie(b.tokens, b.mask); }
//
// A type that is none of these is opaque: it is copied and passed on untouched.

namespace reprise::detail {

template <class T>
concept Leaf = std::same_as<T, at::Tensor> || std::same_as<T, at::Generator>;

template <class T>
concept HasFields = requires(T& value) {
  reprise_fields(value);
};

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
concept Container = requires(T& value) {
  typename T::value_type;
  value.begin();
  value.end();
}
&&!std::same_as<typename T::value_type, T>;

template <class T>
constexpr bool may_hold_tensors();

template <class Tuple, std::size_t... I>
constexpr bool any_may_hold_tensors(std::index_sequence<I...>) {
  return (may_hold_tensors<std::remove_cvref_t<std::tuple_element_t<I, Tuple>>>() || ...);
}

/// Whether a value of type T can hold tensors or generators where visit_nested() finds them.
template <class T>
constexpr bool may_hold_tensors() {
  if constexpr (Leaf<T> || HasFields<T>) {
    return true;
  } else if constexpr (IsOptional<T>::value) {
    return may_hold_tensors<typename T::value_type>();
  } else if constexpr (Container<T>) {
    return may_hold_tensors<typename T::value_type>();
  } else if constexpr (TupleLike<T>) {
    return any_may_hold_tensors<T>(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else {
    return false;
  }
}

template <class T>
constexpr bool holds_nothing_unseen();

template <class Tuple, std::size_t... I>
constexpr bool all_hold_nothing_unseen(std::index_sequence<I...>) {
  return (holds_nothing_unseen<std::remove_cvref_t<std::tuple_element_t<I, Tuple>>>() && ...);
}

/// Whether visit_nested() finds all tensors that a value of type T can hold. A class of its own
/// kind without reprise_fields() may hold some that it does not find.
template <class T>
constexpr bool holds_nothing_unseen() {
  if constexpr (Leaf<T> || HasFields<T> || !std::is_class_v<T>) {
    return true;
  } else if constexpr (IsOptional<T>::value || Container<T>) {
    return holds_nothing_unseen<std::remove_cvref_t<typename T::value_type>>();
  } else if constexpr (TupleLike<T>) {
    return all_hold_nothing_unseen<T>(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else {
    return std::is_empty_v<T>;
  }
}

/// Calls `visit(at::Tensor&)` and `visit(at::Generator&)` for each one in `value`, always in the
/// same order for values of the same structure.
template <class T, class Visitor>
void visit_nested(T& value, Visitor&& visit) {
  if constexpr (std::is_const_v<T> || !may_hold_tensors<T>()) {
    return;
  } else if constexpr (Leaf<T>) {
    visit(value);
  } else if constexpr (HasFields<T>) {
    std::apply([&](auto&... fields) { (visit_nested(fields, visit), ...); }, reprise_fields(value));
  } else if constexpr (IsOptional<T>::value) {
    if (value) visit_nested(*value, visit);
  } else if constexpr (Container<T>) {
    for (auto&& element : value) visit_nested(element, visit);
  } else {
    std::apply([&](auto&... elements) { (visit_nested(elements, visit), ...); }, value);
  }
}

}  // namespace reprise::detail
