// SPDX-License-Identifier: BSD-3-Clause
#include <optional>
#include <tuple>

#include <ATen/ATen.h>

#include "tests/fake_operators.h"

// The recurrent cells' fused operators, which LibTorch has for accelerators alone. Sums are not in
// the CPU's order: its cells are made of other operators.

namespace reprise::testing {
namespace {

using at::Tensor;

Tensor with_bias(const Tensor& gates, const std::optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

Tensor bias_gradient(const Tensor& gates, bool has_bias) {
  return has_bias ? gates.sum(0) : Tensor();
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, const Tensor& hidden,
                                        const Tensor& cell, const std::optional<Tensor>& input_bias,
                                        const std::optional<Tensor>& hidden_bias) {
  const Tensor sum = with_bias(input, input_bias) + with_bias(hidden, hidden_bias);
  const auto parts = sum.chunk(4, 1);
  const Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), value = parts[2].tanh(),
               out = parts[3].sigmoid();
  const Tensor next = forget * cell + in * value;
  return {out * next.tanh(), next, at::cat({in, forget, value, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_backward(const std::optional<Tensor>& grad_output,
                                                 const std::optional<Tensor>& grad_next,
                                                 const Tensor& cell, const Tensor& next,
                                                 const Tensor& gates, bool has_bias) {
  const auto parts = gates.chunk(4, 1);
  const Tensor &in = parts[0], &forget = parts[1], &value = parts[2], &out = parts[3];
  const Tensor squashed = next.tanh();
  const auto or_zeros = [&](const std::optional<Tensor>& grad) {
    return grad && grad->defined() ? *grad : at::zeros_like(next);
  };
  const Tensor output = or_zeros(grad_output);
  const Tensor total = or_zeros(grad_next) + output * out * (1 - squashed * squashed);
  const Tensor grad =
      at::cat({total * value * in * (1 - in), total * cell * forget * (1 - forget),
               total * in * (1 - value * value), output * squashed * out * (1 - out)},
              1);
  return {grad, total * forget, bias_gradient(grad, has_bias)};
}

std::tuple<Tensor, Tensor> gru(const Tensor& input, const Tensor& hidden, const Tensor& state,
                               const std::optional<Tensor>& input_bias,
                               const std::optional<Tensor>& hidden_bias) {
  const auto from_input = with_bias(input, input_bias).chunk(3, 1);
  const auto from_state = with_bias(hidden, hidden_bias).chunk(3, 1);
  const Tensor reset = (from_input[0] + from_state[0]).sigmoid();
  const Tensor keep = (from_input[1] + from_state[1]).sigmoid();
  const Tensor value = (from_input[2] + reset * from_state[2]).tanh();
  return {value + keep * (state - value), at::cat({reset, keep, value, state, from_state[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_backward(const Tensor& grad,
                                                                const Tensor& workspace,
                                                                bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &keep = parts[1], &value = parts[2], &state = parts[3];
  const Tensor to_value = grad * (1 - keep) * (1 - value * value);
  const Tensor to_keep = grad * (state - value) * keep * (1 - keep);
  const Tensor to_reset = to_value * parts[4] * reset * (1 - reset);
  const Tensor input = at::cat({to_reset, to_keep, to_value}, 1);
  const Tensor hidden = at::cat({to_reset, to_keep, to_value * reset}, 1);
  return {input, hidden, grad * keep, bias_gradient(input, has_bias),
          bias_gradient(hidden, has_bias)};
}

}  // namespace

void register_fake_cells() {
  auto& own = kept_library("aten", c10::DispatchKey::PrivateUse1);
  own.impl("_thnn_fused_lstm_cell", &lstm);
  own.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_backward);
  own.impl("_thnn_fused_gru_cell", &gru);
  own.impl("_thnn_fused_gru_cell_backward", &gru_backward);
}

}  // namespace reprise::testing
