// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <reprise/budget.h>
#include <reprise/meter.h>

#include <torch/torch.h>

// Models of the kinds that budgets meet, large enough that activations outweigh all else.

namespace reprise::testing {

struct BudgetModel {
  std::string name;
  std::vector<at::Tensor> parameters, buffers;
  std::function<at::Tensor()> loss;  // a forward pass, drawing from the default generator
};

BudgetModel convolutions();  // BatchNorm, ReLU in place, dropout, residuals
BudgetModel skips();         // a U-Net: values that are needed late
BudgetModel recurrence();    // cells, unrolled
BudgetModel attention();     // two transformer blocks with dropout

/// One training step's results, from a fixed seed: loss, gradients, buffers and the generator. No
/// gradient is left behind. `peak`: raised to the bytes above those live before the forward pass.
std::vector<at::Tensor> step_of(const BudgetModel& model, Budget* budget, int64_t* peak = nullptr);

/// The gradients of the leaves, which have none afterwards.
std::vector<at::Tensor> take_gradients(const std::vector<at::Tensor>& leaves);

int64_t share_of(int64_t bytes, double share);

/// The bytes above those live before it that a plain step needs.
int64_t plain_peak_of(const BudgetModel& model);

}  // namespace reprise::testing
