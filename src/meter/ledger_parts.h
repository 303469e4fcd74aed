// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <reprise/ledger.h>

namespace reprise {

struct LedgerOptions::Parts {
  struct Known {
    at::Tensor tensor;
    Category category;
    std::string module;
  };
  std::vector<Known> tensors;  // parameters, buffers, inputs
  std::vector<const torch::optim::Optimizer*> optimizers;
  c10::Device device = c10::kCPU;
};

namespace detail {

/// Calls `visit` for each tensor of the optimizer's state. Returns false if a part of it is of a
/// class that is not LibTorch's own, which cannot be looked into.
bool visit_state(const torch::optim::Optimizer& optimizer,
                 const std::function<void(const at::Tensor&)>& visit);

}  // namespace detail
}  // namespace reprise
