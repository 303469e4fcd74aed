// SPDX-License-Identifier: BSD-3-Clause
#include "tests/budget_models.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise::testing {
namespace {

namespace nn = torch::nn;
using at::Tensor;

BudgetModel model_of(const std::string& name, const std::shared_ptr<nn::Module>& module,
                     std::function<Tensor()> loss) {
  return {name, module->parameters(), module->buffers(), std::move(loss)};
}

struct ResidualBlock : nn::Module {
  explicit ResidualBlock(int64_t width)
      : first(register_module(
            "first", nn::Conv2d(nn::Conv2dOptions(width, width, 3).padding(1).bias(false)))),
        norm(register_module("norm", nn::BatchNorm2d(width))) {}
  Tensor forward(const Tensor& x) {
    Tensor y = norm->forward(first->forward(x)).relu_();
    y = at::dropout(y, 0.1, is_training());
    return y.add_(x).relu();
  }
  nn::Conv2d first;
  nn::BatchNorm2d norm;
};

struct Convolutions : nn::Module {
  Convolutions() {
    stem = register_module("stem", nn::Conv2d(nn::Conv2dOptions(3, 16, 3).padding(1)));
    for (int i = 0; i < 5; ++i) {
      blocks.push_back(
          register_module("block" + std::to_string(i), std::make_shared<ResidualBlock>(16)));
    }
    head = register_module("head", nn::Linear(16, 10));
  }
  Tensor forward(Tensor x) {
    x = stem->forward(x);
    for (const auto& block : blocks) x = block->forward(x);
    return head->forward(x.mean(at::IntArrayRef{2, 3}));
  }
  nn::Conv2d stem{nullptr};
  std::vector<std::shared_ptr<ResidualBlock>> blocks;
  nn::Linear head{nullptr};
};

struct Skips : nn::Module {
  Skips() {
    int64_t width = 8;
    const auto conv = [](int64_t in, int64_t out) {
      return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1));
    };
    for (int i = 0; i < 3; ++i, width *= 2) {
      down.push_back(register_module("down" + std::to_string(i), conv(i ? width / 2 : 3, width)));
    }
    for (int i = 2; i > 0; --i) {
      const int64_t in = 8LL << i;
      up.push_back(register_module("up" + std::to_string(i), conv(in + in / 2, in / 2)));
    }
    out = register_module("out", conv(8, 1));
  }
  Tensor forward(Tensor x) {
    std::vector<Tensor> kept;
    for (std::size_t i = 0; i < down.size(); ++i) {
      x = at::leaky_relu(down[i]->forward(x));
      if (i + 1 < down.size()) {
        kept.push_back(x);
        x = at::max_pool2d(x, 2);
      }
    }
    for (nn::Conv2d& conv : up) {
      x = at::upsample_nearest2d(x, kept.back().sizes().slice(2));
      x = at::leaky_relu(conv->forward(at::cat({x, kept.back()}, 1)));
      kept.pop_back();
    }
    return out->forward(x);
  }
  std::vector<nn::Conv2d> down, up;
  nn::Conv2d out{nullptr};
};

struct Block : nn::Module {
  explicit Block(int64_t width)
      : width(width),
        norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})))),
        norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})))),
        qkv(register_module("qkv", nn::Linear(width, 3 * width))),
        proj(register_module("proj", nn::Linear(width, width))),
        up(register_module("up", nn::Linear(width, 4 * width))),
        down(register_module("down", nn::Linear(4 * width, width))) {}
  Tensor forward(Tensor x) {
    const int64_t batch = x.size(0), length = x.size(1), heads = 4;
    auto parts = qkv->forward(norm1->forward(x))
                     .view({batch, length, 3, heads, width / heads})
                     .permute({2, 0, 3, 1, 4})
                     .unbind(0);
    const Tensor scores = at::softmax(parts[0].matmul(parts[1].transpose(-2, -1)) * 0.25, -1);
    Tensor y = at::dropout(scores, 0.1, is_training()).matmul(parts[2]);
    x = x + at::dropout(proj->forward(y.transpose(1, 2).reshape({batch, length, width})), 0.1,
                        is_training());
    return x + down->forward(at::gelu(up->forward(norm2->forward(x))));
  }
  int64_t width;
  nn::LayerNorm norm1, norm2;
  nn::Linear qkv, proj, up, down;
};

}  // namespace

BudgetModel convolutions() {
  auto module = std::make_shared<Convolutions>();
  const Tensor x = at::randn({8, 3, 24, 24}), y = at::randint(10, {8});
  return model_of("convolutions", module,
                  [=] { return at::cross_entropy_loss(module->forward(x), y); });
}

BudgetModel skips() {
  auto module = std::make_shared<Skips>();
  const Tensor x = at::randn({4, 3, 32, 32}), y = at::randn({4, 1, 32, 32});
  return model_of("skips", module, [=] { return at::mse_loss(module->forward(x), y); });
}

BudgetModel recurrence() {
  auto cell = std::make_shared<nn::LSTMCellImpl>(32, 64);
  const Tensor x = at::randn({24, 64, 32});
  return model_of("recurrence", cell, [=] {
    Tensor h = at::zeros({64, 64}), c = at::zeros({64, 64});
    for (const Tensor& step : x.unbind(0)) std::tie(h, c) = cell->forward(step, {{h, c}});
    return h.square().mean();
  });
}

BudgetModel attention() {
  nn::Sequential blocks{Block(64), Block(64), Block(64)};
  const Tensor x = at::randn({8, 32, 64});
  return model_of("attention", blocks.ptr(),
                  [=]() mutable { return blocks->forward(x).square().mean(); });
}

namespace {

/// Puts buffers back and takes gradients away, however a step ends.
class StepsBeginAlike {
 public:
  explicit StepsBeginAlike(const BudgetModel& model) : model_(model) {
    for (const Tensor& buffer : model.buffers) buffers_.push_back(buffer.clone());
  }
  ~StepsBeginAlike() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) model_.buffers[i].copy_(buffers_[i]);
    for (Tensor parameter : model_.parameters) parameter.mutable_grad() = Tensor();
  }
  StepsBeginAlike(const StepsBeginAlike&) = delete;
  StepsBeginAlike& operator=(const StepsBeginAlike&) = delete;

 private:
  const BudgetModel& model_;
  std::vector<Tensor> buffers_;
};

}  // namespace

std::vector<at::Tensor> take_gradients(const std::vector<at::Tensor>& leaves) {
  std::vector<Tensor> gradients;
  for (Tensor leaf : leaves) gradients.push_back(std::exchange(leaf.mutable_grad(), Tensor()));
  return gradients;
}

int64_t share_of(int64_t bytes, double share) {
  return static_cast<int64_t>(share * static_cast<double>(bytes));
}

std::vector<at::Tensor> step_of(const BudgetModel& model, Budget* budget, int64_t* peak) {
  const StepsBeginAlike alike(model);
  torch::manual_seed(5);
  std::vector<Tensor> results;
  {
    const PeakScope scope;
    const auto note_peak = [&] {
      if (peak != nullptr) *peak = std::max(*peak, scope.peak_above_base());
    };
    try {
      const Tensor loss = budget ? budget->forward(model.loss) : model.loss();
      loss.backward();
      note_peak();
      results.push_back(loss.detach());
    } catch (...) {
      note_peak();
      throw;
    }
  }
  for (Tensor& gradient : take_gradients(model.parameters)) results.push_back(std::move(gradient));
  for (const Tensor& buffer : model.buffers) results.push_back(buffer.clone());
  results.push_back(at::rand({3}));
  return results;
}

int64_t plain_peak_of(const BudgetModel& model) {
  step_of(model, nullptr);  // what the first step sets up for ever does not count
  int64_t peak = 0;
  step_of(model, nullptr, &peak);
  return peak;
}

}  // namespace reprise::testing
