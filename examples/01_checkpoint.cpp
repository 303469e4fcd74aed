// SPDX-License-Identifier: BSD-3-Clause

// One region: run a block without keeping its activations, and get the same gradients.

#include <iostream>

#include <reprise/reprise.h>

#include <torch/torch.h>

namespace rp = reprise;

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential block(torch::nn::Linear(256, 1024), torch::nn::GELU(),
                              torch::nn::Dropout(0.1), torch::nn::Linear(1024, 256));
  const auto x = torch::randn({512, 256}).requires_grad_();

  const auto gradient = [&](bool checkpointed) {
    torch::manual_seed(1);  // the same dropout mask both times
    const rp::PeakScope step;
    const auto y = checkpointed ? rp::checkpoint(block, x) : block->forward(x);
    const auto held = rp::Meter().live() - step.base();
    const auto grad = torch::autograd::grad({y.square().mean()}, {x})[0];
    std::cout << (checkpointed ? "checkpoint " : "plain      ") << "held " << rp::format_bytes(held)
              << ", peak " << rp::format_bytes(step.peak_above_base()) << '\n';
    return grad;
  };

  const bool equal = rp::bit_equal(gradient(false), gradient(true));
  std::cout << "gradients bit-identical: " << (equal ? "yes" : "no") << '\n';
  return equal ? 0 : 1;
}
