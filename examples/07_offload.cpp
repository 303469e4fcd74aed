// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>
#include <string>

#include <reprise/reprise.h>

#include <torch/torch.h>

// What a forward pass saves goes to a disk behind its back, and comes back ahead of the backward
// pass. Nothing is computed twice, nothing stays in the folder, and the gradients are those of the
// plain run, to the last bit.

namespace rp = reprise;

int main(int argc, char** argv) {
  torch::manual_seed(0);
  torch::nn::Sequential model;
  for (int layer = 0; layer < 8; ++layer) {
    model->push_back(torch::nn::Linear(256, 256));
    model->push_back(torch::nn::GELU());
  }
  const auto x = torch::randn({4096, 256});
  const auto loss_of = [&] { return (model->forward(x) - x).square().mean(); };
  const auto plain = torch::autograd::grad({loss_of()}, model->parameters());

  rp::DiskOptions limits;
  limits.bytes_in_flight = 8 << 20;  // the forward pass waits rather than hold more than that
  const rp::DiskStore store(argc > 1 ? argv[1] : ".", limits);
  const auto policy = rp::Policy::offload(store, rp::OffloadOptions().min_bytes(1 << 20));

  const rp::PeakScope step;
  rp::Scope scope(policy);
  const auto loss = loss_of();
  scope.end();
  const auto moved = torch::autograd::grad({loss}, model->parameters());

  bool equal = true;
  for (std::size_t i = 0; i < plain.size(); ++i) equal = equal && rp::bit_equal(plain[i], moved[i]);
  std::cout << "peak " << rp::format_bytes(step.peak_above_base()) << "; "
            << scope.summary().offload << "gradients bit-identical: " << (equal ? "yes" : "no")
            << '\n';
  return equal && scope.summary().offload.moved > 0 ? 0 : 1;
}
