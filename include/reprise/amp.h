// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

// Mixed precision, which LibTorch has in Python only: a scope for autocast, and the scaling of
// gradients that half precision would flush to zero (torch.amp.GradScaler).

namespace torch {
namespace optim {
class Optimizer;
}
namespace serialize {
class InputArchive;
class OutputArchive;
}  // namespace serialize
}  // namespace torch

namespace reprise {

/// Autocast for one type of device, on this thread, while it lives. Scopes nest. What a scope has
/// cast of the parameters is cached until the outermost one ends. Checkpointed regions and
/// recorded scopes inside replay with the same settings, wherever the backward pass runs; by
/// custom, it runs outside of the scope.
class REPRISE_API Autocast {
 public:
  /// `enabled` false is a part in full precision inside another scope. Throws UsageError for a
  /// device type without autocast, and for a dtype other than float16 and bfloat16.
  explicit Autocast(c10::DeviceType device, c10::ScalarType dtype = c10::kBFloat16,
                    bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  c10::ScalarType dtype_before_;
  bool enabled_before_;
};

/// Options of GradScaler; the defaults are PyTorch's. Setters return the object.
class GradScalerOptions {
 public:
  /// The first scale. Default: 2^16.
  GradScalerOptions& init_scale(double scale) { return init_scale_ = scale, *this; }
  double init_scale() const { return init_scale_; }

  /// What the scale is multiplied by after `growth_interval` good steps in a row. Default: 2.
  GradScalerOptions& growth_factor(double factor) { return growth_factor_ = factor, *this; }
  double growth_factor() const { return growth_factor_; }

  /// And after a step with an infinite or undefined gradient. Default: 0.5.
  GradScalerOptions& backoff_factor(double factor) { return backoff_factor_ = factor, *this; }
  double backoff_factor() const { return backoff_factor_; }

  /// Default: 2000.
  GradScalerOptions& growth_interval(int64_t steps) { return growth_interval_ = steps, *this; }
  int64_t growth_interval() const { return growth_interval_; }

  /// Off: scale() returns what it is given, step() steps, update() does nothing. Default: true.
  GradScalerOptions& enabled(bool on) { return enabled_ = on, *this; }
  bool enabled() const { return enabled_; }

 private:
  double init_scale_ = 65536.0;
  double growth_factor_ = 2.0;
  double backoff_factor_ = 0.5;
  int64_t growth_interval_ = 2000;
  bool enabled_ = true;
};

/// Scales a loss, so that small gradients survive half precision, and its gradients back:
///
///     scaler.scale(loss).backward();
///     scaler.unscale(optimizer);  // only if gradients are looked at or clipped before the step
///     scaler.step(optimizer);     // left out where a gradient is infinite or not a number
///     scaler.update();            // once, when all optimizers have stepped
///
/// With gradient accumulation, the last three stand where the optimizer steps, and the scale stays
/// the same in between. Growth and back-off are LibTorch's own operators, those of PyTorch's
/// GradScaler. Several optimizers and devices may share one scaler. Not thread-safe.
class REPRISE_API GradScaler {
 public:
  /// Throws UsageError unless the first scale is positive and finite, growth is above 1, back-off
  /// is between 0 and 1, and the interval is positive.
  explicit GradScaler(const GradScalerOptions& options = {});
  ~GradScaler();
  GradScaler(GradScaler&&) noexcept;
  GradScaler& operator=(GradScaler&&) noexcept;

  /// `loss` times the scale, as a part of its graph.
  at::Tensor scale(const at::Tensor& loss);

  /// Divides the gradients of the optimizer's parameters by the scale, in place, and notes whether
  /// one is not finite. Throws UsageError for float16 gradients (of float16 parameters), the second
  /// time since update(), and after step().
  void unscale(torch::optim::Optimizer& optimizer);

  /// Unscales, unless that was done, and steps unless a gradient was not finite. Returns whether it
  /// stepped. Throws as unscale() does, and UsageError when no parameter has a gradient.
  bool step(torch::optim::Optimizer& optimizer);

  /// Adapts the scale. Throws UsageError when nothing was unscaled since the last update().
  void update();

  /// Sets the scale. Throws UsageError unless it is positive and finite.
  void update(double scale);

  /// The present scale; 1 when switched off.
  double scale_factor() const;

  /// Good steps since the scale last changed.
  int64_t good_steps() const;

  /// Scale, factors and good steps, for a file; not what was unscaled since update(). load() throws
  /// c10::Error for an archive that is none of a scaler, and then leaves everything as it was.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
