// SPDX-License-Identifier: BSD-3-Clause

// A row of layers in segments: the fewer segments, the fewer outputs are kept, and the more layers
// are live at once while a segment is replayed.

#include <iostream>

#include <reprise/reprise.h>

#include <torch/torch.h>

namespace rp = reprise;

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential net;
  for (int i = 0; i < 24; ++i) {
    net->push_back(torch::nn::Linear(128, 128));
    net->push_back(torch::nn::Tanh());
  }
  const auto x = torch::randn({1024, 128});
  const auto weight = net->parameters().front();

  torch::Tensor plain;
  bool equal = true;
  for (const int segments : {1, 2, 4, 8, 16, 24}) {
    const rp::PeakScope step;
    const rp::ReplayCounter counter;
    const auto y = rp::checkpoint_sequential(net, segments, x);  // one segment runs plain
    const auto held = rp::Meter().live() - step.base();
    const auto grad = torch::autograd::grad({y.square().mean()}, {weight})[0];
    if (segments == 1) plain = grad;
    equal = equal && rp::bit_equal(plain, grad);
    std::cout << segments << " segments: held " << rp::format_bytes(held) << ", peak "
              << rp::format_bytes(step.peak_above_base()) << ", " << counter.stats().operators
              << " operators run again\n";
  }
  std::cout << "gradients bit-identical: " << (equal ? "yes" : "no") << '\n';
  return equal ? 0 : 1;
}
