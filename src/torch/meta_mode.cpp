// SPDX-License-Identifier: BSD-3-Clause
#include "torch/meta_mode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <reprise/error.h>

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>

#include "torch/ivalues.h"
#include "torch/meta_shapes.h"
#include "torch/operator_info.h"
#include "torch/phantom.h"

namespace reprise::detail {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// The same values with each tensor, in lists too, replaced by `convert(tensor)`.
template <class Convert>
c10::IValue converted(const c10::IValue& value, const Convert& convert) {
  const auto one = [&](const Tensor& tensor) {
    return tensor.defined() ? convert(tensor) : Tensor();
  };
  if (value.isTensor()) return one(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(one(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional<Tensor>(one(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

/// Arguments for the meta device, and which tensor each of theirs stands for.
class Twins {
 public:
  Tensor of(const Tensor& tensor) {
    Tensor twin =
        at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
    const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (impl.is_wrapped_number()) twin.unsafeGetTensorImpl()->set_wrapped_number(true);
    pairs_.emplace_back(twin, tensor);
    return twin;
  }

  /// A result on the meta device as one for the program: of new memory, or as a view of the
  /// argument whose twin's memory it shares.
  Tensor result(const Tensor& meta) const {
    for (const auto& [twin, tensor] : pairs_) {
      if (!meta.is_alias_of(twin)) continue;
      return tensor.as_strided(meta.sizes(), meta.strides(),
                               tensor.storage_offset() + meta.storage_offset());
    }
    return make_phantom(meta);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> pairs_;
};

[[noreturn]] void no_values(const OperatorInfo& info) {
  throw Error(info.full_name() + " needs the values of a tensor that has none",
              "under a MetaScope only shapes are known: leave what depends on values out of it");
}

void require_cpu(const c10::Device& device) {
  if (device.is_cpu() || device.is_meta()) return;
  throw UsageError("a tensor on " + device.str() + " is asked for under a MetaScope",
                   "a MetaScope shows what happens on the CPU: make the model there");
}

/// Sends what makes tensors to the meta device, without random generators.
void move_factory_arguments(const OperatorInfo& info, bool has_tensors, Stack& arguments) {
  const auto& declared = info.handle->schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (declared[i].name() == "device") {
      if (arguments[i].isDevice()) require_cpu(arguments[i].toDevice());
      if (arguments[i].isDevice() || !has_tensors) arguments[i] = c10::Device(c10::kMeta);
    } else if (declared[i].name() == "pin_memory" || arguments[i].isGenerator()) {
      arguments[i] = c10::IValue();
    }
  }
}

bool makes_tensors(const OperatorInfo& info) {
  const auto& arguments = info.handle->schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const c10::Argument& each) { return each.name() == "device"; });
}

/// A write changes no value that anybody could read: its results are the arguments it writes to.
void leave_written(const OperatorInfo& info, Stack& stack) {
  std::vector<c10::IValue> written;
  const std::size_t first = stack.size() - info.arguments;
  const auto& declared = info.handle->schema().arguments();
  for (const int index : info.writes) {
    const c10::IValue& each = stack[first + static_cast<std::size_t>(index)];
    const bool empty_result = declared[static_cast<std::size_t>(index)].is_out() &&
                              each.isTensor() && each.toTensor().numel() == 0;
    if (info.resizes || empty_result) {
      throw Error(info.full_name() + " changes the size of a tensor that has no memory",
                  "under a MetaScope call the operator that returns a new tensor");
    }
    if (written.size() < info.returns) written.push_back(each);
  }
  torch::jit::drop(stack, info.arguments);
  for (c10::IValue& each : written) stack.push_back(std::move(each));
}

Tensor zeros_like(const Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).zero_();
}

}  // namespace

MetaMode*& MetaMode::current() {
  thread_local MetaMode* mode = nullptr;
  return mode;
}

void MetaMode::dispatch(const c10::OperatorHandle& op, Stack* stack) {
  const OperatorInfo& info = operator_info(op);
  if (!watch_) return call(info, *stack);
  const Stack arguments(stack->end() - static_cast<int64_t>(info.arguments), stack->end());
  call(info, *stack);
  using Values = c10::ArrayRef<c10::IValue>;
  watch_(info, Values(arguments.data(), arguments.size()),
         Values(stack->data() + stack->size() - info.returns, info.returns));
}

void MetaMode::call(const OperatorInfo& info, Stack& stack) {
  const c10::ArrayRef<c10::IValue> arguments(stack.data() + stack.size() - info.arguments,
                                             info.arguments);
  int tensors = 0, phantoms = 0;
  bool differentiated = false;
  visit_tensors(arguments, [&](const Tensor& tensor) {
    ++tensors;
    phantoms += is_phantom(tensor);
    differentiated = differentiated || tensor.requires_grad();
  });
  const bool only_real = phantoms == 0 && !differentiated;
  if (only_real && (tensors > 0 || !makes_tensors(info))) return info.call_in_mode(stack);
  if (info.needs_values) no_values(info);
  if (info.name == "aten::set_") return info.call_in_mode(stack);  // points elsewhere, no more
  if (info.writes.empty() && !info.aliases.empty()) return info.call_in_mode(stack);  // a view
  if (!info.writes.empty() && info.aliases.size() == info.returns) {
    leave_written(info, stack);
    return;
  }
  call_by_shapes(info, stack);
}

void MetaMode::call_by_shapes(const OperatorInfo& info, Stack& stack) {
  const at::RecordFunctionGuard unobserved(false);  // the program calls one operator, not two
  Stack original;
  for (c10::IValue& each : torch::jit::pop(stack, info.arguments))
    original.push_back(std::move(each));
  Twins twins;
  bool has_tensors = false;
  Stack results;
  for (const c10::IValue& each : original) {
    results.push_back(converted(each, [&](const Tensor& tensor) {
      has_tensors = true;
      return twins.of(tensor);
    }));
  }
  move_factory_arguments(info, has_tensors, results);
  const auto to_result = [&](const Tensor& meta) { return twins.result(meta); };
  if (const ShapeFunction function = shape_function(info.name)) {
    for (const Tensor& meta : function(results)) {
      stack.emplace_back(meta.defined() ? twins.result(meta) : Tensor());
    }
    return;
  }
  try {
    info.call(results);
    for (const c10::IValue& each : results) stack.push_back(converted(each, to_result));
    return;
  } catch (const c10::NotImplementedError&) {
    run_.insert(info.full_name());
  }
  results.clear();
  for (const c10::IValue& each : original) results.push_back(converted(each, zeros_like));
  info.call(results);
  for (const c10::IValue& each : results) stack.push_back(converted(each, make_phantom));
}

}  // namespace reprise::detail
