// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <reprise/error.h>
#include <reprise/hooks.h>
#include <reprise/meta_scope.h>
#include <reprise/meter.h>
#include <reprise/profile.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "base/median.h"
#include "policy/module_paths.h"
#include "profile/module_tree.h"
#include "profile/step_watch.h"
#include "torch/meta_mode.h"
#include "torch/rng.h"

namespace reprise {
namespace {

using detail::median;
using detail::StepWatch;

/// Keeps a saved tensor as it is. A copy of the handle without history: the tensor itself may own
/// the graph that keeps this.
class Kept final : public detail::PackedTensor {
 public:
  explicit Kept(const at::Tensor& tensor) : tensor_(tensor.tensor_data()) {}
  at::Tensor unpack() override { return tensor_; }

 private:
  at::Tensor tensor_;
};

/// The parameters and buffers of a model that are still there.
struct Part {
  at::Tensor tensor;
  int32_t module;
  bool parameter;
};

class Profiler {
 public:
  Profiler(const ModulePaths& paths, const std::function<at::Tensor()>& forward,
           const ProfileOptions& options)
      : forward_(forward), options_(options), meta_(MetaScope::active()) {
    if (options.steps() < 1 || options.warmup() < 0) {
      throw UsageError(
          "profile_step: one step or more is measured, after none or more for "
          "warm-up; got " +
              std::to_string(options.steps()) + " and " + std::to_string(options.warmup()),
          "the defaults are 5 and 1");
    }
    for (const ModulePaths::Entries::Entry& entry : paths.entries().list) {
      auto alive = entry.tensor.lock();
      if (!alive) continue;
      Part part{at::Tensor(std::move(alive)), tracker_.index_of(entry.module), entry.parameter};
      tracker_.know(part.tensor, part.module);
      parts_.push_back(std::move(part));
    }
  }

  Profile run() {
    Profile profile;
    profile.workload = options_.name();
    profile.device = options_.device().str();
    profile.libtorch = TORCH_VERSION;
    profile.threads = at::get_num_threads();
    profile.meta = meta_;
    if (meta_) {
      profile.base_bytes = bytes_of_parts();
      look_at_structure(profile);
      note_run_operators(profile);
    } else {
      const detail::RngState before = detail::RngState::capture({});
      rng_ = &before;
      for (int64_t i = 0; i < options_.warmup(); ++i) run_plain(nullptr);
      look_at_structure(profile);
      measure(profile);
      before.restore();
    }
    profile.modules = detail::module_tree(module_paths(), figures_);
    for (const SavedTensorProfile& line : profile.saved) profile.saved_bytes += line.held_bytes;
    clear_gradients();
    return profile;
  }

 private:
  void clear_gradients() {
    for (Part& part : parts_) {
      if (part.parameter) part.tensor.mutable_grad() = at::Tensor();
    }
  }

  void begin_step() {
    clear_gradients();
    if (rng_ != nullptr) rng_->restore();
  }

  at::Tensor loss() const {
    at::Tensor loss = forward_();
    if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) {
      throw UsageError(
          "profile_step: the forward pass returned no loss of one element that "
          "requires a gradient",
          "return the loss, for example loss_function(model->forward(x), y)");
    }
    return loss;
  }

  /// A step that nothing watches, for what a user would see.
  void run_plain(Profile* profile) {
    begin_step();
    const Meter meter(options_.device());
    const PeakScope scope(meter);
    const detail::KernelClock clock;
    at::Tensor value = loss();
    const int64_t held = meter.live() - scope.base();
    value.backward();
    step_ms_.push_back(clock.milliseconds());
    if (profile == nullptr) return step_ms_.clear();
    profile->base_bytes = scope.base();
    profile->held_bytes = std::max(profile->held_bytes, held);
    profile->peak_bytes = std::max(profile->peak_bytes, scope.peak_above_base());
  }

  /// A step whose operators and saved tensors are looked at.
  void look_at_structure(Profile& profile) {
    begin_step();
    StepWatch watch(tracker_);
    at::Tensor value;
    {
      const detail::CallWatch watching(watch);
      {
        const detail::HookScope hooks([&](const at::Tensor& tensor) {
          watch.saves(tensor);
          return std::make_shared<Kept>(tensor);
        });
        value = loss();
      }
      watch.end_forward();
      profile.saved = watch.take_saved();
      value.backward();
    }
    figures_ = watch.figures();
    figures_.resize(static_cast<std::size_t>(tracker_.count()));
    for (ModuleFigures& each : figures_) each.forward_ms = each.backward_ms = 0;
    count_parameters();
    if (watch.saw_opaque()) {
      profile.notes.emplace_back(
          "Saved tensors without one storage, such as sparse ones, are not "
          "counted.");
    }
  }

  /// Steps in turn plain and timed by module: a machine that slows down slows both.
  void measure(Profile& profile) {
    std::vector<std::vector<double>> forward(figures_.size()), backward(figures_.size());
    std::vector<double> forward_ms, backward_ms;
    for (int64_t i = 0; i < options_.steps(); ++i) {
      run_plain(&profile);
      begin_step();
      StepWatch watch(tracker_);
      {
        const detail::CallWatch watching(watch);
        const detail::KernelClock clock;
        at::Tensor value = loss();
        watch.end_forward();
        forward_ms.push_back(clock.milliseconds());
        value.backward();
        backward_ms.push_back(clock.milliseconds() - forward_ms.back());
      }
      std::vector<ModuleFigures> figures = watch.figures();
      figures.resize(figures_.size());  // a module that only this step came to has no place
      for (std::size_t m = 0; m < figures.size(); ++m) {
        forward[m].push_back(figures[m].forward_ms);
        backward[m].push_back(figures[m].backward_ms);
      }
    }
    for (std::size_t m = 0; m < figures_.size(); ++m) {
      figures_[m].forward_ms = median(std::move(forward[m]));
      figures_[m].backward_ms = median(std::move(backward[m]));
    }
    profile.steps = options_.steps();
    profile.step_ms = median(step_ms_);
    profile.forward_ms = median(std::move(forward_ms));
    profile.backward_ms = median(std::move(backward_ms));
  }

  void count_parameters() {
    std::set<const void*> seen;
    for (const Part& part : parts_) {
      if (!part.parameter || !seen.insert(part.tensor.unsafeGetTensorImpl()).second) continue;
      figures_[static_cast<std::size_t>(part.module)].parameters += part.tensor.numel();
    }
  }

  int64_t bytes_of_parts() const {
    std::set<const void*> seen;
    int64_t bytes = 0;
    for (const Part& part : parts_) {
      if (!part.tensor.has_storage()) continue;
      const c10::Storage& storage = part.tensor.storage();
      if (!seen.insert(storage.unsafeGetStorageImpl()).second) continue;
      bytes += static_cast<int64_t>(storage.nbytes());
    }
    return bytes;
  }

  /// What a reader of shapes must know.
  static void note_run_operators(Profile& profile) {
    std::string names;
    for (const std::string& name : detail::MetaMode::current()->run_operators()) {
      names += (names.empty() ? "" : ", ") + name;
    }
    if (names.empty()) return;
    profile.notes.push_back("No shape function is known for " + names +
                            ": their kernels were run on zeros, with real memory.");
  }

  std::vector<std::string> module_paths() const {
    std::vector<std::string> paths;
    for (int32_t i = 0; i < tracker_.count(); ++i) paths.push_back(tracker_.path(i));
    return paths;
  }

  const std::function<at::Tensor()>& forward_;
  const ProfileOptions& options_;
  const bool meta_;
  detail::ModuleTracker tracker_;
  std::vector<Part> parts_;
  const detail::RngState* rng_ = nullptr;
  std::vector<ModuleFigures> figures_;
  std::vector<double> step_ms_;
};

}  // namespace

Profile profile_step(const ModulePaths& modules, const std::function<at::Tensor()>& forward,
                     const ProfileOptions& options) {
  return Profiler(modules, forward, options).run();
}

}  // namespace reprise
