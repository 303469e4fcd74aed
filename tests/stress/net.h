// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <vector>

#include <torch/torch.h>

namespace reprise::stress {

using at::Tensor;

/// A small model, of some depth and width, with its batch.
struct Net {
  explicit Net(unsigned seed, c10::Device device = at::kCPU)
      : layers(2 + static_cast<int>(seed % 4)) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const int64_t width = 16 + 8 * (seed % 3);
    w = at::randn({width, width}, generator).to(device).requires_grad_();
    x = at::randn({64, width}, generator).to(device).requires_grad_();
  }

  Tensor loss(bool fail = false) const {
    Tensor y = x;
    for (int i = 0; i < layers; ++i) {
      y = at::gelu(y.matmul(w)).add_(1).tanh_();
      if (fail && i == 1) throw std::runtime_error("a forward pass fails");
    }
    return at::log_softmax(y, 1).square().mean();
  }

  std::vector<Tensor> take() const {
    std::vector<Tensor> gradients{w.grad(), x.grad()};
    w.mutable_grad() = Tensor();
    x.mutable_grad() = Tensor();
    return gradients;
  }

  int layers;
  Tensor w, x;
};

}  // namespace reprise::stress
