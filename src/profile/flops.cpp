// SPDX-License-Identifier: BSD-3-Clause
#include "profile/flops.h"

#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>

#include "torch/operator_info.h"

namespace reprise::detail {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

at::IntArrayRef shape(const Inputs& inputs, std::size_t index) {
  return inputs[index].toTensor().sizes();
}

int64_t product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// [.., m, k] times [.., k, n].
int64_t matmul(at::IntArrayRef a, at::IntArrayRef b) { return 2 * product(a) * b.back(); }

FlopCount mm(const Inputs& inputs) { return {matmul(shape(inputs, 0), shape(inputs, 1))}; }
FlopCount addmm(const Inputs& inputs) { return {matmul(shape(inputs, 1), shape(inputs, 2))}; }

// Each position of the output, or of the input of a transposed one, meets the whole weight once for
// each sample.
FlopCount convolution(const Inputs& inputs) {
  const at::IntArrayRef x = shape(inputs, 0), weight = shape(inputs, 1);
  const int64_t each = 2 * x[0] * product(weight);
  if (inputs[6].toBool()) return {each * product(x.slice(2))};
  return {0, each};
}

FlopCount convolution_backward(const Inputs& inputs) {
  const at::IntArrayRef gradient = shape(inputs, 0), x = shape(inputs, 1);
  const at::IntArrayRef weight = shape(inputs, 2);
  const bool transposed = inputs[7].toBool();
  const auto mask = inputs[10].toBoolList();
  const int64_t forward =
      2 * x[0] * product(weight) * product((transposed ? x : gradient).slice(2));
  return {forward * (int64_t{mask[0]} + int64_t{mask[1]})};
}

// Scores and their sums; the backward pass computes the scores again and four products of their
// size.
int64_t attention_products(at::IntArrayRef q, at::IntArrayRef k, int64_t depth, int64_t count) {
  return count * 2 * q[0] * q[1] * q[2] * k[2] * depth;
}

FlopCount attention(const Inputs& inputs) {
  const at::IntArrayRef q = shape(inputs, 0), k = shape(inputs, 1), v = shape(inputs, 2);
  return {attention_products(q, k, q[3], 1) + attention_products(q, k, v[3], 1)};
}

FlopCount attention_backward(const Inputs& inputs) {
  const at::IntArrayRef q = shape(inputs, 1), k = shape(inputs, 2), v = shape(inputs, 3);
  return {attention_products(q, k, q[3], 3) + attention_products(q, k, v[3], 2)};
}

using Formula = FlopCount (*)(const Inputs&);

const std::unordered_map<std::string, Formula>& formulas() {
  static const std::unordered_map<std::string, Formula> table = {
      {"aten::mm", mm},
      {"aten::bmm", mm},
      {"aten::_scaled_mm", mm},
      {"aten::addmm", addmm},
      {"aten::baddbmm", addmm},
      {"aten::convolution", convolution},
      {"aten::_convolution", convolution},
      {"aten::convolution_overrideable", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_scaled_dot_product_flash_attention", attention},
      {"aten::_scaled_dot_product_efficient_attention", attention},
      {"aten::_scaled_dot_product_cudnn_attention", attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
      {"aten::_scaled_dot_product_flash_attention_backward", attention_backward},
      {"aten::_scaled_dot_product_efficient_attention_backward", attention_backward},
      {"aten::_scaled_dot_product_cudnn_attention_backward", attention_backward},
  };
  return table;
}

Formula formula_of(const OperatorInfo& op) {
  thread_local std::unordered_map<const OperatorInfo*, Formula> seen;
  const auto [entry, fresh] = seen.try_emplace(&op, nullptr);
  if (fresh) {
    const auto found = formulas().find(op.name);
    if (found != formulas().end()) entry->second = found->second;
  }
  return entry->second;
}

}  // namespace

int64_t FlopCount::total(Inputs outputs) const {
  if (per_position == 0 || outputs.empty() || !outputs[0].isTensor()) return flops;
  return flops + per_position * product(outputs[0].toTensor().sizes().slice(2));
}

int64_t FlopCount::total(const WatchedCall& call) const {
  const auto& outputs = call.function.outputs();
  return total(Inputs(outputs.data(), outputs.size()));
}

FlopCount count_flops(const OperatorInfo& op, Inputs inputs) {
  const Formula formula = formula_of(op);
  return formula == nullptr ? FlopCount{} : formula(inputs);
}

FlopCount count_flops(const WatchedCall& call) {
  return call.below_autograd ? count_flops(call.op, call.function.inputs()) : FlopCount{};
}

}  // namespace reprise::detail
