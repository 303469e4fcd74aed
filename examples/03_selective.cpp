// SPDX-License-Identifier: BSD-3-Clause

// Selective recomputation by operator replay: no boundaries in the model, one scope around the
// forward pass. The first step under each policy also checks every replay bit by bit.

#include <iostream>

#include <reprise/reprise.h>

#include <torch/torch.h>

namespace rp = reprise;

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Linear(256, 1024), torch::nn::GELU(),
                            torch::nn::Dropout(0.1), torch::nn::Linear(1024, 1024),
                            torch::nn::GELU(), torch::nn::Linear(1024, 10));
  const auto x = torch::randn({512, 256});
  const auto weight = net->parameters().front();
  const rp::ModulePaths paths(*net);

  const auto gradient = [&](const char* name, const rp::Policy& policy) {
    torch::Tensor grad;
    for (int step = 0; step < 2; ++step) {
      torch::manual_seed(1);
      const auto base = rp::Meter().live();
      torch::Tensor loss;
      {
        rp::Scope scope(policy, rp::ScopeOptions().modules(paths));
        loss = net->forward(x).square().mean();
      }
      const auto held = rp::Meter().live() - base;
      grad = torch::autograd::grad({loss}, {weight})[0];
      if (step == 1) std::cout << name << ": held " << rp::format_bytes(held) << '\n';
    }
    return grad;
  };

  const auto plain = gradient("keep everything           ", rp::Policy::keep_all());
  const auto matmuls = gradient("keep matrix products      ", rp::Policy::keep_matmuls());
  const auto gelu =
      gradient("recompute the GELUs       ", rp::Policy::recompute_ops({"aten::gelu"}));
  const auto middle =
      gradient("recompute the second layer", rp::Policy::module("3", rp::Action::recompute));
  const bool equal =
      rp::bit_equal(plain, matmuls) && rp::bit_equal(plain, gelu) && rp::bit_equal(plain, middle);
  std::cout << "gradients bit-identical: " << (equal ? "yes" : "no") << '\n';
  return equal ? 0 : 1;
}
