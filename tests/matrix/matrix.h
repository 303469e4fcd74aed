// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reprise/reprise.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

// Families of models × policies and budgets × dtypes. Each cell runs a program plainly and under a
// policy or a budget, from the same seed, and compares bit by bit all that the program notes.

namespace reprise::matrix {

using at::Tensor;
namespace nn = torch::nn;

/// One run of a program: plain, or under a policy, or under a budget.
class Cell {
 public:
  Cell(at::ScalarType dtype, std::optional<Policy> policy, Budget* budget = nullptr);

  /// Runs a forward pass, in a scope if there is a policy or a budget.
  Tensor forward(const std::function<Tensor()>& work);

  /// What is to be compared. A copy is made.
  void note(const std::string& name, const Tensor& tensor);

  /// A leaf of normal random numbers that requires grad.
  Tensor leaf(at::IntArrayRef sizes) const;

  const std::vector<std::pair<std::string, Tensor>>& noted() const { return noted_; }
  /// Whether the scopes dropped something that was then replayed.
  bool replayed() const;
  /// Values that the scopes have sent to a store.
  int64_t moved() const;
  /// Between forward and backward pass, gives `store` time to take what was sent: it must be
  /// fetched then. Else most of it comes back out of memory, in such small models.
  void let_arrive_in(const Store& store) { arrives_in_ = store; }

  const at::ScalarType dtype;

 private:
  std::optional<Policy> policy_;
  Budget* budget_;
  std::optional<Store> arrives_in_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<std::pair<std::string, Tensor>> noted_;
};

using Program = std::function<void(Cell&)>;

/// What is trained: the output is a function of a random input and of the parameters.
struct Model {
  std::vector<int64_t> input;
  std::vector<Tensor> parameters, buffers;
  std::function<Tensor(const Tensor& input, int step)> forward;
};

/// A module's parameters and buffers, in the dtype of the cell.
Model model_of(const Cell& cell, const std::shared_ptr<nn::Module>& module,
               const std::vector<int64_t>& input,
               std::function<Tensor(const Tensor& input, int step)> forward);

/// A model without buffers whose parameters are leaves of these sizes.
Model model_of(
    const Cell& cell, const std::vector<std::vector<int64_t>>& parameters,
    const std::vector<int64_t>& input,
    const std::function<Tensor(const std::vector<Tensor>& parameters, const Tensor&)>& forward);

/// Steps of SGD. Noted are outputs, losses, gradients, buffers, parameters and generator states.
Program training(const std::function<Model(const Cell&)>& make, int steps = 3);

/// The mean of the squares, of complex numbers too.
Tensor loss_of(const Tensor& output);

inline const std::vector<at::ScalarType> kRealTypes{at::kFloat, at::kDouble, at::kBFloat16};

/// Runs all cells of one family: presets, everything dropped, 20 random policies, one audit,
/// budgets from all that plain needs down to where they are infeasible, and offloads of everything
/// and of random choices to three stores: 6, or as many as REPRISE_MATRIX_OFFLOADS says.
void check(const std::string& family, const Program& program,
           const std::vector<at::ScalarType>& dtypes = kRealTypes);

}  // namespace reprise::matrix
