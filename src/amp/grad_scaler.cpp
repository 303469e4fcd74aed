// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include <reprise/amp.h>
#include <reprise/error.h>

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

// The method, its limits and its numbers are those of torch.amp.GradScaler. What looks for values
// that are not finite, grows and backs off are LibTorch's operators, which Python calls, too.

namespace reprise {
namespace {

using at::Tensor;
using torch::optim::Optimizer;

using PerDevice = std::unordered_map<c10::Device, Tensor>;

enum class Stage { ready, unscaled, stepped };

/// One optimizer since the last update().
struct Progress {
  Stage stage = Stage::ready;
  PerDevice not_finite;  // on each device with gradients: 0, or more where one is not finite
};

void require(bool holds, const std::string& what, const std::string& hint) {
  if (!holds) throw UsageError("GradScaler: " + what, hint);
}

void require_scale(double scale) {
  require(std::isfinite(scale) && scale > 0, "a scale of " + std::to_string(scale),
          "give a positive, finite number");
}

void check(const GradScalerOptions& options) {
  require_scale(options.init_scale());
  require(options.growth_factor() > 1,
          "a growth factor of " + std::to_string(options.growth_factor()), "give a number above 1");
  require(options.backoff_factor() > 0 && options.backoff_factor() < 1,
          "a back-off factor of " + std::to_string(options.backoff_factor()),
          "give a number between 0 and 1");
  require(options.growth_interval() > 0,
          "a growth interval of " + std::to_string(options.growth_interval()),
          "give a number of steps of 1 or more");
}

using Gradients =
    std::unordered_map<c10::Device, std::unordered_map<c10::ScalarType, std::vector<Tensor>>>;

/// The gradients of an optimizer, by device and dtype, as one call can take them.
Gradients gradients_of(Optimizer& optimizer) {
  Gradients all;
  for (auto& group : optimizer.param_groups()) {
    for (Tensor& parameter : group.params()) {
      Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) continue;
      require(gradient.scalar_type() != at::kHalf, "gradients of float16 cannot be unscaled",
              "keep the parameters in float32 and run the forward pass under Autocast");
      const Tensor numbers = gradient.is_sparse() ? gradient._values() : gradient;
      all[numbers.device()][numbers.scalar_type()].push_back(numbers);
    }
  }
  return all;
}

}  // namespace

struct GradScaler::State {
  GradScalerOptions options;
  Tensor scale;
  Tensor good_steps = at::zeros({}, at::kInt);
  std::unordered_map<const Optimizer*, Progress> progress;
};

GradScaler::GradScaler(const GradScalerOptions& options) : state_(std::make_unique<State>()) {
  check(options);
  state_->options = options;
  state_->scale = at::full({}, options.init_scale(), at::kFloat);
}

GradScaler::~GradScaler() = default;
GradScaler::GradScaler(GradScaler&&) noexcept = default;
GradScaler& GradScaler::operator=(GradScaler&&) noexcept = default;

Tensor GradScaler::scale(const Tensor& loss) {
  if (!state_->options.enabled()) return loss;
  // On the first loss's device, so that adapting the scale need not wait for it.
  if (state_->progress.empty() && state_->scale.device() != loss.device()) {
    state_->scale = state_->scale.to(loss.device());
    state_->good_steps = state_->good_steps.to(loss.device());
  }
  return loss * state_->scale.to(loss.device());
}

void GradScaler::unscale(Optimizer& optimizer) {
  if (!state_->options.enabled()) return;
  Progress& progress = state_->progress[&optimizer];
  require(progress.stage != Stage::unscaled,
          "unscale() a second time for one optimizer since update()",
          "unscale once, when all gradients of the step are there");
  require(progress.stage != Stage::stepped, "unscale() after step()",
          "call unscale(), step() and update() in this order");
  const torch::NoGradGuard no_grad;
  // In float64, as PyTorch does: a float32 division may be compiled to less than that.
  const Tensor inverse = state_->scale.to(at::kDouble).reciprocal().to(at::kFloat);
  for (auto& [device, by_dtype] : gradients_of(optimizer)) {
    Tensor& found = progress.not_finite[device];
    found = at::zeros({}, at::TensorOptions().device(device).dtype(at::kFloat));
    for (auto& [dtype, gradients] : by_dtype) {
      at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse.to(device));
    }
  }
  progress.stage = Stage::unscaled;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!state_->options.enabled()) return optimizer.step(), true;
  require(state_->progress[&optimizer].stage != Stage::stepped, "step() twice since update()",
          "call update() after each step()");
  if (state_->progress[&optimizer].stage == Stage::ready) unscale(optimizer);
  Progress& progress = state_->progress[&optimizer];
  require(!progress.not_finite.empty(), "no parameter of the optimizer has a gradient",
          "call backward() on scale(loss) first, and leave step() out where nothing was computed");
  bool finite = true;
  for (const auto& [device, found] : progress.not_finite) {
    finite = finite && found.item<float>() == 0;
  }
  if (finite) optimizer.step();
  progress.stage = Stage::stepped;
  return finite;
}

void GradScaler::update() {
  if (!state_->options.enabled()) return;
  const torch::NoGradGuard no_grad;
  Tensor not_finite;
  for (const auto& [optimizer, progress] : state_->progress) {
    for (const auto& [device, found] : progress.not_finite) {
      const Tensor here = found.to(state_->scale.device());
      not_finite = not_finite.defined() ? not_finite + here : here;
    }
  }
  require(not_finite.defined(), "update() without a step() or unscale() before it",
          "call it once in each step, after the optimizers");
  at::_amp_update_scale_(state_->scale, state_->good_steps, not_finite,
                         state_->options.growth_factor(), state_->options.backoff_factor(),
                         state_->options.growth_interval());
  state_->progress.clear();
}

void GradScaler::update(double scale) {
  require_scale(scale);
  if (!state_->options.enabled()) return;
  state_->scale.fill_(scale);
  state_->progress.clear();
}

double GradScaler::scale_factor() const {
  return state_->options.enabled() ? state_->scale.item<float>() : 1.0;
}

int64_t GradScaler::good_steps() const { return state_->good_steps.item<int>(); }

void GradScaler::save(torch::serialize::OutputArchive& archive) const {
  const GradScalerOptions& options = state_->options;
  archive.write("scale", state_->scale.to(at::kCPU), /*is_buffer=*/true);
  archive.write("good_steps", state_->good_steps.to(at::kCPU), /*is_buffer=*/true);
  archive.write("growth_factor", c10::IValue(options.growth_factor()));
  archive.write("backoff_factor", c10::IValue(options.backoff_factor()));
  archive.write("growth_interval", c10::IValue(options.growth_interval()));
}

void GradScaler::load(torch::serialize::InputArchive& archive) {
  State loaded;
  c10::IValue growth, backoff, interval;
  archive.read("scale", loaded.scale, /*is_buffer=*/true);
  archive.read("good_steps", loaded.good_steps, /*is_buffer=*/true);
  archive.read("growth_factor", growth);
  archive.read("backoff_factor", backoff);
  archive.read("growth_interval", interval);
  loaded.options = GradScalerOptions()
                       .init_scale(loaded.scale.item<float>())
                       .growth_factor(growth.toDouble())
                       .backoff_factor(backoff.toDouble())
                       .growth_interval(interval.toInt())
                       .enabled(state_->options.enabled());
  check(loaded.options);
  *state_ = std::move(loaded);
}

}  // namespace reprise
