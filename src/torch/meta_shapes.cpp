// SPDX-License-Identifier: BSD-3-Clause
#include "torch/meta_shapes.h"

#include <unordered_map>

#include <ATen/EmptyTensor.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>

namespace reprise::detail {
namespace {

using at::IntArrayRef;
using at::Tensor;
using torch::jit::Stack;
using Results = std::vector<Tensor>;

Tensor make(IntArrayRef sizes, c10::ScalarType dtype,
            c10::MemoryFormat format = c10::MemoryFormat::Contiguous) {
  return at::detail::empty_meta(sizes, dtype, std::nullopt, std::nullopt, std::nullopt, format);
}

Tensor like(const Tensor& tensor) { return make(tensor.sizes(), tensor.scalar_type()); }

Tensor optional_tensor(const c10::IValue& value) {
  return value.isNone() ? Tensor() : value.toTensor();
}

/// Statistics are kept in float where the weights are and the input is not.
c10::ScalarType statistics_dtype(const Tensor& input, const c10::IValue& weight) {
  const Tensor scale = optional_tensor(weight);
  const bool mixed = scale.defined() && scale.scalar_type() != input.scalar_type();
  return mixed ? c10::ScalarType::Float : input.scalar_type();
}

// Element by element: (input)
Results unary(const Stack& arguments) { return {at::empty_like(arguments[0].toTensor())}; }

/// Element by element of all three, laid out as LibTorch lays out what it makes of them.
Tensor elementwise(const Tensor& a, const Tensor& b, const Tensor& c, c10::ScalarType dtype) {
  const auto with_arithmetic = [](const Tensor& tensor) {
    return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), c10::ScalarType::Float);
  };
  const Tensor shape = at::addcmul(with_arithmetic(a), with_arithmetic(b), with_arithmetic(c));
  return at::detail::empty_strided_meta(shape.sizes(), shape.strides(), dtype);
}

// (condition, where true, where false)
Results where(const Stack& arguments) {
  const Tensor &one = arguments[1].toTensor(), &other = arguments[2].toTensor();
  return {elementwise(arguments[0].toTensor(), one, other, at::result_type(one, other))};
}

// (input, other)
Results logical(const Stack& arguments) {
  const Tensor &one = arguments[0].toTensor(), &other = arguments[1].toTensor();
  return {elementwise(one, other, other, c10::ScalarType::Bool)};
}

// (weight, indices, ...)
Results embedding(const Stack& arguments) {
  const Tensor& weight = arguments[0].toTensor();
  std::vector<int64_t> sizes = arguments[1].toTensor().sizes().vec();
  sizes.push_back(weight.size(1));
  return {make(sizes, weight.scalar_type())};
}

// (gradient, indices, number of weights, ...)
Results embedding_dense_backward(const Stack& arguments) {
  const Tensor& gradient = arguments[0].toTensor();
  return {make({arguments[2].toInt(), gradient.size(-1)}, gradient.scalar_type())};
}

// (input, dimension, index)
Results index_select(const Stack& arguments) {
  const Tensor& input = arguments[0].toTensor();
  std::vector<int64_t> sizes = input.sizes().vec();
  if (sizes.empty()) return {like(input)};
  const int64_t dim = arguments[1].toInt();
  sizes[static_cast<std::size_t>(dim < 0 ? dim + input.dim() : dim)] =
      arguments[2].toTensor().numel();
  return {make(sizes, input.scalar_type())};
}

// (input, normalised shape, weight, bias, epsilon)
Results layer_norm(const Stack& arguments) {
  const Tensor& input = arguments[0].toTensor();
  const auto inner = arguments[1].toIntList().size();
  std::vector<int64_t> statistics = input.sizes().vec();
  for (std::size_t i = statistics.size() - inner; i < statistics.size(); ++i) statistics[i] = 1;
  const c10::ScalarType dtype = statistics_dtype(input, arguments[2]);
  return {like(input), make(statistics, dtype), make(statistics, dtype)};
}

// (gradient, input, normalised shape, mean, 1 / deviation, weight, bias, which)
Results layer_norm_backward(const Stack& arguments) {
  const auto wanted = arguments[7].toBoolList();
  const Tensor weight = optional_tensor(arguments[5]), bias = optional_tensor(arguments[6]);
  return {wanted[0] ? like(arguments[1].toTensor()) : Tensor(),
          wanted[1] && weight.defined() ? like(weight) : Tensor(),
          wanted[2] && bias.defined() ? like(bias) : Tensor()};
}

// (input, weight, bias, batch, channels, elements of each, groups, epsilon)
Results group_norm(const Stack& arguments) {
  const Tensor& input = arguments[0].toTensor();
  const c10::ScalarType dtype = statistics_dtype(input, arguments[1]);
  const std::vector<int64_t> statistics = {arguments[3].toInt(), arguments[6].toInt()};
  return {make(input.sizes(), input.scalar_type(), input.suggest_memory_format()),
          make(statistics, dtype), make(statistics, dtype)};
}

// (gradient, input, mean, 1 / deviation, weight, batch, channels, elements of each, groups, which)
Results group_norm_backward(const Stack& arguments) {
  const Tensor& input = arguments[1].toTensor();
  const auto wanted = arguments[9].toBoolList();
  const Tensor weight = optional_tensor(arguments[4]);
  const Tensor scale =
      weight.defined() ? weight : make({arguments[6].toInt()}, input.scalar_type());
  return {wanted[0] ? make(input.sizes(), input.scalar_type(), input.suggest_memory_format())
                    : Tensor(),
          wanted[1] ? like(scale) : Tensor(), wanted[2] ? like(scale) : Tensor()};
}

// (input of sizes [batch, classes, height, width], target, weight, reduction, ...)
Results nll_loss2d(const Stack& arguments) {
  const Tensor& input = arguments[0].toTensor();
  std::vector<int64_t> sizes;
  if (arguments[3].toInt() == 0) sizes = {input.size(0), input.size(2), input.size(3)};
  return {make(sizes, input.scalar_type()), make({}, input.scalar_type())};
}

// (gradient, input, ...)
Results nll_loss2d_backward(const Stack& arguments) {
  return {at::empty_like(arguments[1].toTensor())};
}

// (input, weight, bias, running mean, running variance, training, momentum, epsilon)
Results batch_norm(const Stack& arguments) {
  const Tensor& input = arguments[0].toTensor();
  const c10::ScalarType dtype = statistics_dtype(input, arguments[1]);
  const std::vector<int64_t> statistics = {arguments[5].toBool() ? input.size(1) : 0};
  return {make(input.sizes(), input.scalar_type(), input.suggest_memory_format()),
          make(statistics, dtype), make(statistics, dtype)};
}

// (gradient, input, weight, running mean, running variance, saved mean, saved 1 / deviation,
// training, epsilon, which)
Results batch_norm_backward(const Stack& arguments) {
  const Tensor& input = arguments[1].toTensor();
  const auto wanted = arguments[9].toBoolList();
  const c10::ScalarType dtype = statistics_dtype(input, arguments[2]);
  const std::vector<int64_t> channels = {input.size(1)};
  return {wanted[0] ? make(input.sizes(), input.scalar_type(), input.suggest_memory_format())
                    : Tensor(),
          wanted[1] ? make(channels, dtype) : Tensor(),
          wanted[2] ? make(channels, dtype) : Tensor()};
}

// (input, weight, bias, stride, padding, dilation, transposed, output padding, groups)
Results convolution(const Stack& arguments) {
  const Tensor &input = arguments[0].toTensor(), &weight = arguments[1].toTensor();
  const auto stride = arguments[3].toIntVector(), padding = arguments[4].toIntVector();
  const auto dilation = arguments[5].toIntVector(), more = arguments[7].toIntVector();
  const bool transposed = arguments[6].toBool();
  // One number stands for all dimensions.
  const auto at = [](const std::vector<int64_t>& list, std::size_t i) {
    return list.size() == 1 ? list[0] : list[i];
  };
  std::vector<int64_t> sizes = {
      input.size(0), transposed ? weight.size(1) * arguments[8].toInt() : weight.size(0)};
  for (int64_t d = 2; d < input.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d - 2);
    const int64_t reach = at(dilation, i) * (weight.size(d) - 1);
    sizes.push_back(transposed
                        ? (input.size(d) - 1) * at(stride, i) - 2 * at(padding, i) + reach +
                              at(more, i) + 1
                        : (input.size(d) + 2 * at(padding, i) - reach - 1) / at(stride, i) + 1);
  }
  const auto last = c10::MemoryFormat::ChannelsLast;
  const bool channels_last = input.dim() == 4 && (input.suggest_memory_format() == last ||
                                                  weight.suggest_memory_format() == last);
  return {make(sizes, input.scalar_type(), channels_last ? last : c10::MemoryFormat::Contiguous)};
}

// (gradient, input, weight, sizes of the bias, ..., which)
Results convolution_backward(const Stack& arguments) {
  const auto wanted = arguments[10].toBoolList();
  const Tensor &input = arguments[1].toTensor(), &weight = arguments[2].toTensor();
  const int64_t channels = arguments[0].toTensor().size(1);
  return {wanted[0] ? make(input.sizes(), input.scalar_type(), input.suggest_memory_format())
                    : Tensor(),
          wanted[1] ? make(weight.sizes(), weight.scalar_type(), weight.suggest_memory_format())
                    : Tensor(),
          wanted[2] ? make({channels}, weight.scalar_type()) : Tensor()};
}

/// Of sizes [batch, heads, positions, ...], laid out with positions before heads.
Tensor by_position(std::vector<int64_t> sizes, c10::ScalarType dtype) {
  std::swap(sizes[1], sizes[2]);
  return make(sizes, dtype).transpose(1, 2);
}

// (query, key, value, ...)
Results attention(const Stack& arguments) {
  const Tensor &query = arguments[0].toTensor(), &value = arguments[2].toTensor();
  const auto dtype = query.scalar_type();
  return {by_position({query.size(0), query.size(1), query.size(2), value.size(3)}, dtype),
          by_position({query.size(0), query.size(1), query.size(2)}, at::toOpMathType(dtype))};
}

// (gradient, query, key, value, ...)
Results attention_backward(const Stack& arguments) {
  Results results;
  for (std::size_t i = 1; i <= 3; ++i) {
    const Tensor& tensor = arguments[i].toTensor();
    results.push_back(by_position(tensor.sizes().vec(), tensor.scalar_type()));
  }
  return results;
}

}  // namespace

ShapeFunction shape_function(const std::string& op) {
  static const std::unordered_map<std::string, ShapeFunction> table = {
      {"aten::relu", unary},
      {"aten::abs", unary},
      {"aten::where", where},
      {"aten::logical_and", logical},
      {"aten::native_group_norm", group_norm},
      {"aten::native_group_norm_backward", group_norm_backward},
      {"aten::nll_loss2d_forward", nll_loss2d},
      {"aten::nll_loss2d_backward", nll_loss2d_backward},
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_dense_backward},
      {"aten::index_select", index_select},
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::native_batch_norm", batch_norm},
      {"aten::native_batch_norm_backward", batch_norm_backward},
      {"aten::convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace reprise::detail
