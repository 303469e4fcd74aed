// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <reprise/detail/reentrant.h>
#include <reprise/error.h>

#include <ATen/core/ivalue.h>
#include <c10/core/GradMode.h>
#include <torch/autograd.h>

#include "checkpoint/recorded_call.h"
#include "meter/content_hash.h"
#include "meter/region_log.h"
#include "torch/backward_pass.h"
#include "torch/graph.h"
#include "torch/saved_tensor.h"

namespace reprise::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A tensor of the function's result, as far as two runs must agree on it. The node that made it
/// does not count: there is none in the first run.
struct ResultStamp {
  ResultStamp(const at::Tensor& tensor, Determinism check) {
    if (check == Determinism::none || !tensor.defined()) return;
    metadata.emplace(tensor.detach());
    if (check == Determinism::values) hash = content_hash(tensor);
  }
  bool operator==(const ResultStamp&) const = default;

  std::optional<SavedMetadata> metadata;
  std::optional<uint64_t> hash;
};

std::vector<ResultStamp> stamps_of(const std::vector<at::Tensor>& results, Determinism check) {
  std::vector<ResultStamp> stamps;
  for (const at::Tensor& result : results) stamps.emplace_back(result, check);
  return stamps;
}

bool can_have_gradient(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

/// What the node keeps beside the arguments.
struct Region : torch::CustomClassHolder {
  Region(const CheckpointOptions& options, std::shared_ptr<ReplayCall> function)
      : call(options, std::move(function)) {}

  const CheckpointOptions& options() const { return call.options(); }

  std::vector<at::Tensor> run_again(const std::vector<at::Tensor>& arguments);

  RecordedCall call;
  std::vector<at::Tensor> arguments;  // until the node has them; inference tensors for ever
  std::vector<ResultStamp> results;
  std::vector<bool> differentiable;  // which results the node has
  const void* node = nullptr;
  std::recursive_mutex mutex;  // replays take turns; the function may run backward passes
};

std::vector<at::Tensor> Region::run_again(const std::vector<at::Tensor>& given) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  std::vector<at::Tensor> again;
  const bool same_draws = call.run_again([&](ReplayCall& function) {
    const std::shared_ptr<void> context =
        options().replay_context() ? options().replay_context()() : nullptr;
    again = function.run(given);
  });
  const std::string hint =
      "the function must do the same work each time it is run: look for state "
      "that changes between the forward and the backward pass";
  if (!same_draws) {
    throw RecomputeMismatch(
        call.label() + ": the replay drew random numbers where the forward pass did not", hint);
  }
  if (stamps_of(again, options().determinism()) != results) {
    throw RecomputeMismatch(
        call.label() + ": its replay returned other tensors than the forward pass", hint);
  }
  return again;
}

struct Reentrant : torch::autograd::Function<Reentrant> {
  /// `arguments` are the region's: autograd finds in them where the gradients go.
  static variable_list forward(AutogradContext* node, at::TensorList arguments,
                               const c10::intrusive_ptr<Region>& region,
                               const std::function<variable_list()>& run) {
    node->set_materialize_grads(false);
    node->saved_data["region"] = c10::IValue::make_capsule(region);
    variable_list saved;
    for (const at::Tensor& argument : arguments) {
      const bool plain = argument.defined() && argument.is_inference();
      saved.push_back(plain ? at::Tensor() : argument);
      region->arguments.push_back(plain ? argument : at::Tensor());
    }
    node->save_for_backward(std::move(saved));
    return run();
  }

  static variable_list backward(AutogradContext* node, const variable_list& gradients);
};

void require_plain_backward(const Region& region) {
  const std::string hint = "use Variant::non_reentrant, which has no such limit";
  if (!passes_want_all_gradients()) {
    throw UsageError(region.call.label() +
                         ": a reentrant region works with backward() only, not "
                         "with autograd::grad() nor with `inputs`",
                     hint);
  }
  if (c10::GradMode::is_enabled()) {
    throw UsageError(region.call.label() +
                         ": a reentrant region has no second derivatives, so "
                         "backward() must not be asked for create_graph",
                     hint);
  }
}

variable_list Reentrant::backward(AutogradContext* node, const variable_list& gradients) {
  const auto region =
      c10::static_intrusive_pointer_cast<Region>(node->saved_data["region"].toCapsule());
  require_plain_backward(*region);
  std::vector<at::Tensor> arguments = node->get_saved_variables();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined()) {
      arguments[i] = region->arguments[i];
    } else {
      arguments[i] = arguments[i].detach().requires_grad_(arguments[i].requires_grad());
    }
  }
  const std::vector<at::Tensor> results = region->run_again(arguments);

  variable_list roots, root_gradients;
  auto gradient = gradients.begin();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!region->differentiable[i]) continue;
    if (gradient->defined() && results[i].requires_grad()) {
      roots.push_back(results[i]);
      root_gradients.push_back(*gradient);
    }
    ++gradient;
  }
  if (roots.empty()) {
    throw UsageError(region->call.label() +
                         ": no result that a gradient comes in for depends on "
                         "anything that requires one",
                     "this region need not be checkpointed: call the function without "
                     "checkpoint(), or use Variant::non_reentrant");
  }
  // LibTorch holds a lock of this node: a backward pass that came back to it would wait for ever.
  if (leads_to(roots, region->node)) {
    throw UsageError(region->call.label() +
                         ": its function uses its own result, which it can only "
                         "have captured by reference",
                     "capture by value what may change, or pass it as an argument");
  }
  torch::autograd::backward(roots, root_gradients);
  variable_list to_arguments;
  for (const at::Tensor& argument : arguments) {
    const bool asked = argument.defined() && argument.requires_grad();
    to_arguments.push_back(asked ? argument.grad() : at::Tensor());
  }
  to_arguments.resize(to_arguments.size() + 2);  // none for `region` and `run`
  return to_arguments;
}

/// The arguments that the function must leave alone, watched while it runs.
class Unchanged {
 public:
  Unchanged(const std::vector<at::Tensor>& arguments, std::string label)
      : label_(std::move(label)) {
    for (const at::Tensor& argument : arguments) {
      stamps_.push_back(argument.defined() && !argument.is_inference()
                            ? std::optional<VersionStamp>(argument)
                            : std::nullopt);
    }
  }
  void check() const {
    for (std::size_t i = 0; i < stamps_.size(); ++i) {
      if (!stamps_[i] || !stamps_[i]->changed()) continue;
      throw UsageError(label_ + ": its function changes its argument tensor " + std::to_string(i) +
                           " in place, so it cannot be run again from it",
                       "let the function work on a copy (x.clone()), or use the form that is not "
                       "in place");
    }
  }

 private:
  const std::string label_;
  std::vector<std::optional<VersionStamp>> stamps_;
};

}  // namespace

std::vector<at::Tensor> reentrant_forward(const CheckpointOptions& options,
                                          std::shared_ptr<ReplayCall> call,
                                          const std::function<std::vector<at::Tensor>()>& first) {
  const auto region = c10::make_intrusive<Region>(options, std::move(call));
  const std::vector<at::Tensor> arguments = region->call.take_arguments();
  if (std::none_of(arguments.begin(), arguments.end(), [](const at::Tensor& argument) {
        return argument.defined() && argument.requires_grad();
      })) {
    throw UsageError(region->call.label() +
                         ": a reentrant region needs a tensor among its arguments that "
                         "requires a gradient, or nothing in it gets one",
                     "call requires_grad_() on the input, or use Variant::non_reentrant");
  }
  std::vector<at::Tensor> results;
  const auto run = [&] {
    const Unchanged unchanged(arguments, region->call.label());
    {
      const auto draws = region->call.watch_first_run();
      const std::shared_ptr<void> context =
          options.forward_context() ? options.forward_context()() : nullptr;
      results = first();
    }
    region->call.end_first_run();
    unchanged.check();
    region->results = stamps_of(results, options.determinism());
    variable_list differentiable;
    for (at::Tensor& result : results) {
      region->differentiable.push_back(can_have_gradient(result));
      if (!region->differentiable.back()) continue;
      // What others have, too (a parameter, a buffer, another result) must not become a result of
      // this node. As a view made without a graph it also refuses to be changed in place.
      if (result.use_count() > 1) result = result.alias();
      differentiable.push_back(result);
    }
    log_region(options.name(), std::nullopt, options.preserve_rng());
    return differentiable;
  };
  const variable_list connected =
      Reentrant::apply(at::TensorList(arguments), region, std::function<variable_list()>(run));
  if (!connected.empty()) region->node = node_of(connected.front());
  auto next = connected.begin();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (region->differentiable[i]) results[i] = *next++;
  }
  return results;
}

void throw_no_result_tensors(const CheckpointOptions& options) {
  throw UsageError("checkpoint(): a reentrant region" +
                       (options.name().empty() ? std::string() : " ('" + options.name() + "')") +
                       " must return tensors by value, alone or in what holds them",
                   "let the function return them, or use Variant::non_reentrant");
}

}  // namespace reprise::detail
