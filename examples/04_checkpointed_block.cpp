// SPDX-License-Identifier: BSD-3-Clause

// Regions as parts of a model: a block that is checkpointed wherever it is called, a segment with
// arguments that are no tensors, and attention, called as f(x, x, x), whose result is a tuple.

#include <iostream>
#include <tuple>

#include <reprise/reprise.h>

#include <torch/torch.h>

namespace rp = reprise;
using torch::Tensor;

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width) : up(width, 4 * width), down(4 * width, width) {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) { return x + down(gelu(up(x))); }

  torch::nn::Linear up, down;
  torch::nn::GELU gelu;
};
TORCH_MODULE(Block);
using CheckpointedBlock = rp::Checkpointed<Block>;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("second", second);
  }

  Tensor forward(const Tensor& x, const rp::CheckpointOptions& options) {
    first->checkpoint_options(options);
    second->checkpoint_options(options);
    const auto attended = rp::checkpoint(options, attention, x, x, x);
    const Tensor y = second(first(std::get<0>(attended)));
    const auto wave = [](const Tensor& t, double scale, int64_t power) {
      return (t * scale).sin().pow(power);
    };
    return rp::checkpoint(options, wave, y, 0.5, 2);
  }

  static std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor weights = torch::softmax(q.matmul(k.transpose(-2, -1)) / 8, -1);
    return {weights.matmul(v), weights};
  }

  CheckpointedBlock first{64}, second{64};
};
TORCH_MODULE(Net);

int main() {
  torch::manual_seed(0);
  Net net;
  const auto x = torch::randn({16, 128, 64}).requires_grad_();

  const auto gradient = [&](bool checkpointed) {
    const auto base = rp::Meter().live();
    const Tensor loss =
        net->forward(x, rp::CheckpointOptions().enabled(checkpointed)).square().mean();
    std::cout << (checkpointed ? "checkpointed" : "plain       ") << " held "
              << rp::format_bytes(rp::Meter().live() - base) << '\n';
    return torch::autograd::grad({loss}, {x})[0];
  };

  const Tensor plain = gradient(false);
  const bool equal = rp::bit_equal(plain, gradient(true));
  std::cout << "gradients bit-identical: " << (equal ? "yes" : "no") << '\n';
  return equal ? 0 : 1;
}
