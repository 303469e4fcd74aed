// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/meter.h>

#include "tests/internal/tape_programs.h"

// The tape by itself: gradients, buffers and RNG stream against plain.

namespace reprise::detail {
namespace {

TEST(Tape, Pointwise) {
  check(of(
      [] {
        return std::vector<Tensor>{leaf({4, 4})};
      },
      [](const auto& l) { return l[0].sin().exp().mul(l[0]).tanh().cos().sum(); }));
}

TEST(Tape, InPlaceOperatorsAndViews) {
  check(of(
      [] {
        return std::vector<Tensor>{leaf({4, 4}), leaf({4})};
      },
      [](const auto& l) {
        Tensor x = l[0] * 2;
        x.add_(l[1].sin().relu_());
        x.select(0, 1).div_(3);
        x.t().add_(l[1]);
        const Tensor y = x.exp();
        x.slice(1, 0, 2).copy_(y.slice(1, 2, 4));
        return (x.sigmoid() * y.view({2, 8}).sum(0).view({2, 4}).repeat({2, 1})).sum();
      }));
}

TEST(Tape, DropoutsAndDraws) {
  check(of(
      [] {
        return std::vector<Tensor>{leaf({8, 8})};
      },
      [](const auto& l) {
        Tensor y = at::dropout(l[0].sin(), 0.4, true);
        y = at::rrelu(y, 0.1, 0.4, true) * at::rand_like(y).exp();
        return (at::dropout(y.exp(), 0.2, true) * at::randn({8}).sin()).sum();
      }));
}

TEST(Tape, ExplicitGenerators) {
  check([](const Scoped& scoped) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    const Tensor x = leaf({16});
    Tensor y;
    scoped([&] {
      y = (x.exp() * at::bernoulli(at::full({16}, 0.5), generator)).sin() *
          at::rand({16}, generator);
    });
    auto result = torch::autograd::grad({y.sum()}, {x});
    result.push_back(at::rand({4}, generator));
    return result;
  });
}

std::vector<Tensor> collect(const nn::Module& module) {
  std::vector<Tensor> all;
  for (const Tensor& p : module.parameters()) all.push_back(p.grad().clone());
  for (const Tensor& b : module.buffers()) all.push_back(b.clone());
  return all;
}

Program train(std::function<std::shared_ptr<nn::Module>()> make,
              std::function<Tensor(nn::Module&, int)> loss) {
  return [=](const Scoped& scoped) {
    torch::manual_seed(3);
    const auto module = make();
    torch::optim::SGD sgd(module->parameters(), 0.05);
    std::vector<Tensor> all;
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      Tensor value;
      scoped([&] { value = loss(*module, step); });
      value.backward();
      for (Tensor& t : collect(*module)) all.push_back(t);
      sgd.step();
    }
    return all;
  };
}

struct Residual : nn::Module {
  Residual() {
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)));
    norm1 = register_module("norm1", nn::BatchNorm2d(4));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
    norm2 =
        register_module("norm2", nn::BatchNorm2d(nn::BatchNorm2dOptions(4).momentum(std::nullopt)));
    head = register_module("head", nn::Linear(4, 2));
  }
  Tensor forward(Tensor x) {
    x = norm1(conv1(x));
    x.relu_();
    Tensor y = norm2(conv2(x));
    y += x;
    y.relu_();
    return head(at::adaptive_avg_pool2d(y, {1, 1}).flatten(1));
  }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  nn::Linear head{nullptr};
};

TEST(Tape, ResidualNetWithBatchNormAndInPlaceRelu) {
  check(train([] { return std::make_shared<Residual>(); },
              [](nn::Module& m, int step) {
                torch::manual_seed(step);
                Residual& net = *m.as<Residual>();
                net.train(step != 1);
                return net.forward(at::randn({2, 3, 6, 6})).square().sum();
              }));
}

TEST(Tape, RecurrentNets) {
  check(train(
      [] {
        return std::make_shared<nn::LSTMImpl>(nn::LSTMOptions(4, 5).num_layers(2).dropout(0.3));
      },
      [](nn::Module& m, int) {
        return std::get<0>(m.as<nn::LSTMImpl>()->forward(at::randn({6, 2, 4}))).square().sum();
      }));
  check(
      train([] { return std::make_shared<nn::GRUImpl>(nn::GRUOptions(4, 5).bidirectional(true)); },
            [](nn::Module& m, int) {
              return std::get<0>(m.as<nn::GRUImpl>()->forward(at::randn({6, 2, 4}))).square().sum();
            }));
}

TEST(Tape, EmbeddingsWithMaxNorm) {
  check(train(
      [] { return std::make_shared<nn::EmbeddingImpl>(nn::EmbeddingOptions(10, 4).max_norm(0.5)); },
      [](nn::Module& m, int) {
        auto& e = *m.as<nn::EmbeddingImpl>();
        const Tensor a = e.forward(at::randint(10, {3})).sin();
        return (a * e.forward(at::randint(10, {3})).exp()).sum();
      }));
}

TEST(Tape, AttentionWithMaskAndDropout) {
  check(train(
      [] {
        return std::make_shared<nn::TransformerEncoderLayerImpl>(
            nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.2));
      },
      [](nn::Module& m, int) {
        const Tensor mask = at::ones({5, 5}).triu(1).mul(-1e9);
        return m.as<nn::TransformerEncoderLayerImpl>()
            ->forward(at::randn({5, 2, 8}), mask)
            .square()
            .sum();
      }));
}

TEST(Tape, IndexingWithOptionalTensorLists) {
  check(of(
      [] {
        return std::vector<Tensor>{leaf({5, 6, 4})};
      },
      [](const auto& l) {
        using namespace torch::indexing;
        const Tensor i = at::tensor({0, 2, 4}), j = at::tensor({1, 3, 0});
        Tensor x = l[0].exp() + 1;
        const Tensor a = x.index({i, Slice(), j}).sin();
        x.index_put_({i, j}, x.index({i, j}).cos(), true);
        const Tensor b = x.gather(1, at::zeros({5, 2, 4}, at::kLong)).exp();
        return a.sum() + b.sum() + x.masked_fill(x > 1, 0.5).sin().sum();
      }));
}

TEST(Tape, SeveralResultsListsComplexAndOut) {
  check(of(
      [] {
        return std::vector<Tensor>{leaf({4, 6}), leaf({4, 6})};
      },
      [](const auto& l) {
        const auto [var, mean] = at::var_mean(l[0].exp(), 1);
        const auto parts = l[1].sin().split(2, 1);
        const Tensor cat = at::cat({parts[2], parts[0], var.unsqueeze(1)}, 1).exp();
        const Tensor z = at::complex(l[0].sin(), l[1].cos());
        const Tensor w = at::imag(z.mul(z.conj()).conj()).sin() + at::real(z.conj().exp());
        Tensor out = at::empty({4, 6});
        {
          const torch::NoGradGuard guard;
          at::mul_out(out, l[0], l[1]);
        }
        return cat.sum() + w.sum() + (mean * var.sqrt()).sum() + (out * l[0]).exp().sum();
      }));
}

TEST(Tape, DetachNoGradAndScalarTensors) {
  check(of([] { return std::vector<Tensor>{leaf({4})}; },
           [](const auto& l) {
             Tensor scale;
             {
               const torch::NoGradGuard guard;
               scale = l[0].exp().mean();
             }
             const Tensor y = l[0].sin() * scale * 2.5;
             return (y.detach().cos() * y.exp() * at::scalar_tensor(0.5, at::kDouble)).sum();
           }));
}

struct Square : torch::autograd::Function<Square> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    const Tensor y = x.exp();
    ctx->save_for_backward({x, y});
    return y * x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list g) {
    const auto saved = ctx->get_saved_variables();
    return {g[0] * (saved[1] + saved[1] * saved[0])};
  }
};

TEST(Tape, CustomFunctions) {
  check(of([] { return std::vector<Tensor>{leaf({4})}; },
           [](const auto& l) { return Square::apply(l[0].sin()).cos().sum(); }));
}

TEST(Tape, DoubleBackwardAndRetainedGraphs) {
  check([](const Scoped& scoped) {
    const Tensor x = leaf({4});
    Tensor y;
    scoped([&] { y = x.sin().exp().mul(x).tanh().sum(); });
    std::vector<Tensor> all;
    for (int i = 0; i < 2; ++i) all.push_back(torch::autograd::grad({y}, {x}, {}, true)[0]);
    Tensor g = torch::autograd::grad({y}, {x}, {}, true, true)[0].sum();
    g = torch::autograd::grad({g}, {x}, {}, true, true)[0].sum();
    all.push_back(torch::autograd::grad({g}, {x})[0]);
    return all;
  });
}

TEST(Tape, BackwardInsideTheScope) {
  check([](const Scoped& scoped) {
    const Tensor x = leaf({4});
    std::vector<Tensor> all;
    scoped([&] {
      const Tensor y = x.sin().exp();
      all.push_back(torch::autograd::grad({y.sum()}, {x}, {}, true)[0]);
      const Tensor g = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
      (y * g.tanh()).sum().backward();
      all.push_back(x.grad().clone());
    });
    return all;
  });
}

TEST(Tape, SparseTensorsAreKeptWhole) {
  check(of(
      [] {
        return std::vector<Tensor>{leaf({4, 4})};
      },
      [](const auto& l) {
        const Tensor sparse = at::eye(4).to_sparse();
        return at::_sparse_mm(sparse, l[0].exp()).sin().sum();
      }));
}

TEST(Tape, LiveBytesReturnToTheBaseAndFallDuringBackward) {
  const Meter meter;
  const Tensor x = at::randn({1 << 14}).requires_grad_();
  const int64_t base = meter.live();
  for (const bool backward : {true, false}) {
    Tensor y = x;
    {
      const Recording recording(
          std::make_shared<Tape>(std::make_shared<KeepOps>(std::vector<std::string>{"aten::mul"})));
      for (int i = 0; i < 6; ++i) y = (y * 1.1).sin().exp().tanh();
      y = y.sum();
    }
    EXPECT_LE(meter.live() - base, 7 * (1 << 16) + 64) << "only the products are kept";
    if (backward) y.backward();
    y = Tensor();
    Tensor(x).mutable_grad() = Tensor();
    EXPECT_EQ(meter.live(), base);
  }
}

TEST(Tape, EachOperatorIsReplayedOnce) {
  TapeCounts counts;
  const auto program =
      of([] { return std::vector<Tensor>{leaf({4})}; },
         [](const auto& l) { return l[0].sin().exp().cos().tanh().sigmoid().sin().sum(); });
  run(program, std::make_shared<DropAll>(), &counts);
  EXPECT_EQ(counts.operators, 7);
  EXPECT_EQ(counts.replays, 5);  // not the last sin, nor the sum
}

}  // namespace
}  // namespace reprise::detail
