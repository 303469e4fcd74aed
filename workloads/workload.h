// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <reprise/layer_class.h>
#include <reprise/module_paths.h>

#include <torch/torch.h>

#include "workloads/strategy.h"

// A workload is a model with its data: what the command trains and compares, and what tests and
// benches run. Options come in; out come batches, and a loss for each, computed by any strategy.

namespace reprise {
class Budget;
class Scope;
}  // namespace reprise

namespace reprise::workloads {

/// What can be set from outside. Each workload takes only some of these, and rejects the others.
struct WorkloadOptions {
  std::optional<int64_t> layers;
  std::optional<int64_t> width;
  std::optional<int64_t> heads;
  std::optional<int64_t> context;
  std::optional<int64_t> batch;
  std::optional<std::vector<int64_t>> hidden;
  std::optional<double> dropout;
  std::optional<std::string> data;    ///< path of the data file
  std::optional<std::string> text;    ///< path of a text to learn
  std::optional<std::string> images;  ///< path of a folder of images
  std::optional<std::string> input;   ///< shape and kind of a script's input, "8x3x224x224:float"
  std::optional<int64_t> schedule;    ///< steps over which the learning rate falls
  std::optional<int64_t> depth;       ///< number of layers by which a network is known
  std::optional<int64_t> size;        ///< height and width of an image
  std::optional<std::string> loss;    ///< of a script's output: "mean_square" or "sum"
  std::optional<double> learning_rate;
  std::optional<c10::ScalarType> autocast;  ///< forward passes run under autocast to this type
  int64_t seed = 0;
  torch::Device device = torch::kCPU;
};

/// As they were given, in the command's words: " --layers 6 --seed 0".
std::string options_text(const WorkloadOptions& options);

/// "bf16" or "fp16".
const char* autocast_name(c10::ScalarType type);

struct Batch {
  torch::Tensor input;   ///< its gradient is compared too where it requires one
  torch::Tensor target;  ///< undefined where the workload needs none
};

struct ForwardResult {
  torch::Tensor loss;
  torch::Tensor output;

  /// That it ran under, if the strategy asks for one. It has ended, and its summary goes on
  /// counting in the backward pass.
  std::shared_ptr<Scope> scope = nullptr;
};

/// A workload's own measure of how well it does: an accuracy, a loss on data that is not trained
/// on.
struct Quality {
  std::string name;
  double value = 0;
  std::string unit =
      {};  ///< "nats/byte"; "%" for a share from 0 to 1, which people read as percent
};

class Workload {
 public:
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  const std::string& name() const { return name_; }
  torch::Device device() const { return options_.device; }
  int64_t seed() const { return options_.seed; }

  /// Name and options, "gpt --layers 6 --seed 0": equal ones begin with equal weights.
  std::string setting() const { return name_ + options_text(options_); }

  /// The same without what changes neither operators nor sizes: seed and rates.
  std::string model_setting() const;
  std::optional<c10::ScalarType> autocast() const { return options_.autocast; }

  virtual torch::nn::Module& module() = 0;

  /// The finest chain of layers that strategies act upon; a model may have more around it. Default:
  /// none, for a chain of another kind.
  virtual const std::vector<Layer>& layers() const;

  /// Its length, whatever its kind. Default: of layers().
  virtual int64_t layer_count() const;

  /// How the strategy `checkpoint` groups the layers. Default: each by itself.
  virtual std::vector<Segment> blocks() const;

  /// The regions that a strategy checkpoints, in order; see regions(). Throws UsageError when it
  /// does not fit.
  virtual std::vector<Segment> regions_of(const Strategy& strategy) const;

  /// The batch of a step, counted from 0: a function of seed and step alone.
  virtual Batch batch(int64_t step) = 0;
  virtual int64_t samples_per_batch() const = 0;

  /// Throws UsageError for more parts than a step's batch has samples.
  void require_parts(int64_t parts) const;

  /// A batch in parts, along its first dimension; as equal as can be, the larger ones first. Throws
  /// UsageError for more parts than samples.
  std::vector<Batch> split(const Batch& batch, int64_t parts) const;

  /// How much a batch weighs when the losses of several are averaged: the number of things that its
  /// own loss is the mean of. Default: its samples.
  virtual double loss_weight(const Batch& batch) const;

  /// Throws UsageError when a strategy does not fit the model or its batches.
  void check(const Strategy& strategy);

  /// Measures what a strategy goes by, once: the classes of modules, in two forward passes that
  /// leave neither draws nor statistics behind. Nothing for most strategies.
  void prepare(const Strategy& strategy);

  /// The forward pass of a step by a strategy: under a Scope where it asks for one, under autocast
  /// where the options do. Prepares the strategy where that has not been done.
  ForwardResult run(const Strategy& strategy, const Batch& batch);

  /// Forward passes run under a budget from now on, or under none. It must outlive them.
  void use_budget(Budget* budget) { budget_ = budget; }

  virtual ForwardResult forward(const Strategy& strategy, const Batch& batch) = 0;

  /// Of the present weights, without dropout. Default: none.
  virtual std::optional<Quality> quality();

  virtual std::unique_ptr<torch::optim::Optimizer> make_optimizer();

  /// What the learning rate is multiplied by in a step, counted from 0. Default: 1.
  virtual double learning_rate_factor(int64_t step) const;

  /// The norm to which larger gradients are clipped, all parameters together. Default: none.
  virtual std::optional<double> max_gradient_norm() const { return std::nullopt; }

  /// Shown when a training run has ended, such as text that the model has written. Default: empty.
  virtual std::string sample() { return ""; }

  /// The loss and the step at which training ends unless its user says otherwise. Default: none.
  virtual std::optional<double> target_loss() const;
  virtual std::optional<int64_t> default_steps() const { return std::nullopt; }

  /// Names of the parts that each layer or the chain of them consists of, for strategies such as
  /// `ffn`. Default: none.
  virtual std::vector<std::string> part_names() const { return {}; }

  /// A seed for all that is random in one step, well apart from those of its neighbours.
  uint64_t step_seed(int64_t step) const;

  int64_t parameter_count();

 protected:
  Workload(std::string name, WorkloadOptions options);
  const WorkloadOptions& options() const { return options_; }

  /// Draws the data of a step: the CPU's, so that every device gets the same numbers. Steps below 0
  /// are for data that is not trained on.
  at::Generator step_generator(int64_t step) const;

 private:
  /// What modules cost, as a forward pass of this batch has shown.
  struct Measured {
    ModulePaths paths;
    LayerClasses classes;
  };
  void require_layer_parts(const Strategy& strategy) const;
  const Measured& measured(const Strategy& strategy);
  ForwardResult forward_in_precision(const Strategy& strategy, const Batch& batch);

  std::string name_;
  WorkloadOptions options_;
  std::optional<Measured> measured_;
  Budget* budget_ = nullptr;
};

std::vector<std::string> workload_names();

/// One line for help: "digits (--hidden --dropout --data), blocks (...)".
std::string workload_summary();

/// `name` is one of workload_names(), or "script:FILE.pt". Seeds LibTorch's generators from the
/// options, so that equal options give equal weights. Throws UsageError for an unknown name, an
/// option that the workload does not take, or a bad value.
std::unique_ptr<Workload> make_workload(const std::string& name, const WorkloadOptions& options);

/// "cpu", "cuda", "cuda:1". Throws UsageError for a device that is not there.
torch::Device parse_device(const std::string& text);

/// Waits until the device has done all that it was given.
void synchronize(torch::Device device);

}  // namespace reprise::workloads
