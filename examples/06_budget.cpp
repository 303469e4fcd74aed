// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>

#include <reprise/reprise.h>

#include <torch/torch.h>

// A whole model inside a number of bytes: the first step makes room as it goes, the next ones
// follow a plan. The losses are those of training without a budget, to the last bit.

namespace rp = reprise;

torch::Tensor train(rp::Budget* budget) {
  torch::manual_seed(0);
  torch::nn::Sequential model;
  for (int layer = 0; layer < 8; ++layer) {
    model->push_back(torch::nn::Linear(128, 128));
    model->push_back(torch::nn::GELU());
    model->push_back(torch::nn::Dropout(0.1));
  }
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::Tensor loss;
  for (int step = 0; step < 6; ++step) {
    const auto x = torch::randn({2048, 128});
    const auto loss_of = [&] { return (model->forward(x) - x).square().mean(); };
    optimizer.zero_grad();
    loss = budget != nullptr ? budget->forward(loss_of) : loss_of();
    loss.backward();
    optimizer.step();
    if (budget != nullptr) budget->finish_planning();  // or go on meanwhile
  }
  return loss.detach();
}

int main() {
  rp::Budget budget = rp::Budget::fraction(0.5);  // or Budget(512_MiB), of all bytes
  const bool equal = rp::bit_equal(train(&budget), train(nullptr));
  std::cout << budget.summary() << "losses bit-identical: " << (equal ? "yes" : "no") << '\n';
  return equal && budget.summary().planned_steps > 0 ? 0 : 1;
}
