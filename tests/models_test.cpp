// SPDX-License-Identifier: BSD-3-Clause
#include <torch/script.h>

#include "tests/support.h"

// Small real models, whole: gradients and buffers against plain.

namespace reprise::testing {
namespace {

namespace nn = torch::nn;

nn::Conv2d conv(int in, int out) { return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)); }

void expect_same(const nn::Module& module, const Tensor& x, const std::function<Tensor()>& plain,
                 const std::function<Tensor()>& ours) {
  std::vector<Tensor> leaves = module.parameters();
  leaves.push_back(x);
  EXPECT_TRUE(same_bits(loss_and_gradients(leaves, plain), loss_and_gradients(leaves, ours)));
}

TEST(Models, ThreeConvolutionBlock) {
  torch::manual_seed(1);
  nn::Sequential block(conv(3, 8), nn::ReLU(), conv(8, 8), nn::ReLU(), conv(8, 4), nn::ReLU());
  const Tensor x = leaf({2, 3, 12, 12});
  expect_same(
      *block, x, [&] { return block->forward(x).square().sum(); },
      [&] { return checkpoint(block, x).square().sum(); });
}

TEST(Models, SixLayerCnnInThreeSegmentsWithDropoutAndInPlaceRelu) {
  torch::manual_seed(1);
  std::vector<nn::Sequential> layers;
  nn::ModuleList net;
  for (int i = 0; i < 6; ++i) {
    layers.emplace_back(conv(i ? 8 : 3, 8), nn::ReLU(nn::ReLUOptions(true)), nn::Dropout(0.1));
    net->push_back(layers.back());
  }
  const Tensor x = leaf({2, 3, 10, 10});
  const auto plain = [&] {
    Tensor y = x;
    for (auto& layer : layers) y = layer->forward(y);
    return y.square().sum();
  };
  for (const bool last : {false, true}) {
    expect_same(*net, x, plain, [&] {
      const auto options = SequentialOptions().checkpoint_last(last);
      return checkpoint_sequential(options, layers, 3, x).square().sum();
    });
  }
}

TEST(Models, MultiheadAttentionCalledWithOneTensorThreeTimes) {
  torch::manual_seed(1);
  nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(16, 4).dropout(0.2));
  const Tensor x = leaf({5, 3, 16});
  const auto f = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return attention(q, k, v);
  };
  const auto loss = [](const std::tuple<Tensor, Tensor>& result) {
    return std::get<0>(result).square().sum() + std::get<1>(result).sin().sum();
  };
  expect_same(
      *attention, x, [&] { return loss(f(x, x, x)); },
      [&] { return loss(checkpoint(f, x, x, x)); });
}

TEST(Models, LstmWithItsStateAndScaledDotProductAttention) {
  torch::manual_seed(1);
  nn::LSTM lstm(nn::LSTMOptions(8, 8).num_layers(2).dropout(0.2));
  const Tensor x = leaf({6, 2, 8});
  const auto f = [&](const Tensor& t) {
    const Tensor y = std::get<0>(lstm(t)).transpose(0, 1).unsqueeze(1);
    return at::scaled_dot_product_attention(y, y, y, {}, 0.0, /*is_causal=*/true);
  };
  expect_same(
      *lstm, x, [&] { return f(x).square().sum(); },
      [&] { return checkpoint(f, x).square().sum(); });
}

// In its first calls the profiling executor turns operators into differentiable graphs, which save
// other tensors: a replay may see that, and must say so. Square shapes, so that only the operators
// tell the tensors apart.
TEST(Models, TorchScriptModuleEqualsPlainOnceItIsWarmAndNeverLiesBefore) {
  torch::jit::Module script("net");
  script.register_parameter("weight", leaf({6, 6}, 3).detach(), /*is_buffer=*/false);
  script.define(R"(
    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(torch.mm(x, self.weight)).sin()
        return x
  )");
  const Tensor x = leaf({6, 6});
  std::vector<Tensor> leaves{x};
  for (const Tensor& parameter : script.parameters()) leaves.push_back(parameter);
  const auto f = [&](const Tensor& t) { return script.forward({t}).toTensor(); };
  bool equal = false;
  for (int iteration = 0; iteration < 4; ++iteration) {
    try {
      const auto ours = loss_and_gradients(leaves, [&] { return checkpoint(f, x).sum(); });
      EXPECT_TRUE(same_bits(loss_and_gradients(leaves, [&] { return f(x).sum(); }), ours));
      equal = true;
    } catch (const RecomputeMismatch&) {
      equal = false;
    }
  }
  EXPECT_TRUE(equal);
}

TEST(Models, ChannelsLastComplexAndHalfPrecision) {
  torch::manual_seed(1);
  nn::Conv2d layer = conv(4, 4);
  const Tensor image =
      leaf({2, 4, 6, 6}).detach().contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const auto f = [&](const Tensor& t) { return layer(t).relu().square(); };
  expect_same(
      *layer, image, [&] { return f(image).sum(); }, [&] { return checkpoint(f, image).sum(); });
  const Tensor z = at::complex(leaf({4, 4}, 1).detach(), leaf({4, 4}, 2).detach()).requires_grad_();
  const auto g = [](const Tensor& t) { return at::real(t.exp().matmul(t.conj()).sin()); };
  EXPECT_TRUE(same_bits(loss_and_gradients({z}, [&] { return g(z).sum(); }),
                        loss_and_gradients({z}, [&] { return checkpoint(g, z).sum(); })));
  const Tensor half = leaf({4, 4}).detach().to(at::kBFloat16).requires_grad_();
  const auto h = [](const Tensor& t) { return at::gelu(t.matmul(t)).softmax(-1); };
  EXPECT_TRUE(
      same_bits(loss_and_gradients({half}, [&] { return h(half).square().sum(); }),
                loss_and_gradients({half}, [&] { return checkpoint(h, half).square().sum(); })));
}

TEST(Models, RandomDropoutsOfEveryKind) {
  const Tensor x = leaf({4, 6, 8, 8});
  const auto f = [](const Tensor& t) {
    Tensor y = at::dropout(t, 0.2, true);
    y = at::feature_dropout(y.sin(), 0.2, true);
    y = at::alpha_dropout(y, 0.1, true).exp();
    y = at::rrelu(y - 1, 0.1, 0.3, true);
    return y * at::rand_like(y) + at::randn({8}) * y.sigmoid().bernoulli();
  };
  EXPECT_TRUE(same_bits(loss_and_gradients({x}, [&] { return f(x).sum(); }),
                        loss_and_gradients({x}, [&] { return checkpoint(f, x).sum(); })));
}

}  // namespace
}  // namespace reprise::testing
