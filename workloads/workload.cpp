// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/workload.h"

#include <algorithm>
#include <utility>

#include <reprise/amp.h>
#include <reprise/budget.h>
#include <reprise/error.h>
#include <reprise/scope.h>

#include "workloads/snapshot.h"
#include "workloads/words.h"

namespace reprise::workloads {
namespace {

void require_parts_of(int64_t samples, int64_t parts) {
  if (parts >= 1 && parts <= samples) return;
  throw UsageError("a batch of " + std::to_string(samples) + " cannot be taken in " +
                       std::to_string(parts) + " parts",
                   "every part needs a sample: use 1 to " + std::to_string(samples));
}

}  // namespace

Workload::Workload(std::string name, WorkloadOptions options)
    : name_(std::move(name)), options_(std::move(options)) {}

std::string Workload::model_setting() const {
  WorkloadOptions options = options_;
  options.learning_rate.reset();
  options.schedule.reset();
  const std::string text = name_ + options_text(options);
  return text.substr(0, text.rfind(" --seed "));
}

const std::vector<Layer>& Workload::layers() const {
  static const std::vector<Layer> kNone;
  return kNone;
}

int64_t Workload::layer_count() const { return static_cast<int64_t>(layers().size()); }

std::vector<Segment> Workload::blocks() const { return make_segments(layer_count(), 1); }

std::vector<Segment> Workload::regions_of(const Strategy& strategy) const {
  return regions(strategy, layer_count(), blocks());
}

void Workload::require_layer_parts(const Strategy& strategy) const {
  if (!asks_for_parts(strategy)) return;
  const std::vector<std::string> names = part_names();
  const auto part = part_of(strategy);
  const bool there =
      part ? std::find(names.begin(), names.end(), *part) != names.end() : !names.empty();
  if (!there) {
    throw UsageError(
        "strategy '" + strategy.text + "': the layers of '" + name_ + "' have no " +
            (part ? "such part" : "parts"),
        names.empty() ? "choose a strategy for whole layers" : "they have " + join(names));
  }
}

void Workload::check(const Strategy& strategy) {
  regions_of(strategy);
  policy_of(strategy, layer_count(), [] { return LayerClasses(); });
  require_layer_parts(strategy);
  require_parts(parts_of(strategy));
}

ForwardResult Workload::forward_in_precision(const Strategy& strategy, const Batch& batch) {
  std::optional<Autocast> autocast;
  if (options_.autocast) autocast.emplace(device().type(), *options_.autocast);
  return forward(strategy, batch);
}

// The first pass warms up, the second counts.
const Workload::Measured& Workload::measured(const Strategy& strategy) {
  if (measured_) return *measured_;
  const Batch first = batch(0);
  const Snapshot buffers(module().buffers());
  const std::vector<torch::Tensor> generators = generator_states(device());
  Measured measured{ModulePaths(module()), {}};
  for (int pass = 0; pass < 2; ++pass) {
    Scope scope(Policy::keep_all(), ScopeOptions().modules(measured.paths).measure(true));
    forward_in_precision(strategy, first);
    measured.classes = classify_layers(scope.summary().modules);
  }
  set_generator_states(device(), generators);
  buffers.restore();
  measured_ = std::move(measured);
  return *measured_;
}

void Workload::prepare(const Strategy& strategy) {
  if (needs_classes(strategy)) measured(strategy);
}

ForwardResult Workload::run(const Strategy& strategy, const Batch& batch) {
  require_layer_parts(strategy);
  std::shared_ptr<Scope> scope;
  const auto classes = [&] { return measured(strategy).classes; };
  if (const auto policy = policy_of(strategy, layer_count(), classes)) {
    ScopeOptions options = ScopeOptions().name(strategy.text);
    if (needs_classes(strategy)) options.modules(measured_->paths);
    scope = std::make_shared<Scope>(*policy, options);
  }
  std::optional<BudgetScope> budgeted;
  if (budget_ != nullptr) budgeted.emplace(*budget_);
  ForwardResult result = forward_in_precision(strategy, batch);
  budgeted.reset();  // it began inside of the scope
  if (scope) scope->end();
  result.scope = std::move(scope);
  return result;
}

void Workload::require_parts(int64_t parts) const { require_parts_of(samples_per_batch(), parts); }

std::vector<Batch> Workload::split(const Batch& batch, int64_t parts) const {
  require_parts_of(batch.input.size(0), parts);
  if (parts == 1) return {batch};
  const std::vector<torch::Tensor> inputs = batch.input.tensor_split(parts);
  std::vector<torch::Tensor> targets(inputs.size());
  if (batch.target.defined()) targets = batch.target.tensor_split(parts);
  std::vector<Batch> result;
  for (std::size_t i = 0; i < inputs.size(); ++i) result.push_back({inputs[i], targets[i]});
  return result;
}

double Workload::loss_weight(const Batch& batch) const {
  return static_cast<double>(batch.input.size(0));
}

double Workload::learning_rate_factor(int64_t /*step*/) const { return 1; }

std::optional<Quality> Workload::quality() { return std::nullopt; }

std::optional<double> Workload::target_loss() const { return std::nullopt; }

std::unique_ptr<torch::optim::Optimizer> Workload::make_optimizer() {
  return std::make_unique<torch::optim::SGD>(module().parameters(),
                                             options_.learning_rate.value_or(0.01));
}

// The finaliser of splitmix64. Plain sums would make step 1 of seed 0 the step 0 of seed 1.
uint64_t Workload::step_seed(int64_t step) const {
  uint64_t x =
      static_cast<uint64_t>(options_.seed) * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(step) + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

at::Generator Workload::step_generator(int64_t step) const {
  at::Generator generator = at::globalContext().defaultGenerator(torch::kCPU).clone();
  generator.set_current_seed(step_seed(step));
  return generator;
}

int64_t Workload::parameter_count() {
  int64_t count = 0;
  for (const torch::Tensor& parameter : module().parameters()) count += parameter.numel();
  return count;
}

}  // namespace reprise::workloads
