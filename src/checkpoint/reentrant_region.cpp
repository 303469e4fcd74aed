// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/reentrant_region.h"

#include <utility>

#include <reprise/error.h>

#include "checkpoint/reentrant_checks.h"
#include "meter/content_hash.h"
#include "meter/region_log.h"
#include "torch/geometry.h"

namespace reprise::detail {
namespace {

bool can_have_gradient(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

/// The same, or where others have it, too (a parameter, a buffer, another result), a tensor of our
/// own: only that may become a result of the node. Made without a graph, a view refuses to be
/// changed in place.
at::Tensor only_ours(const at::Tensor& result) {
  if (result.layout() != at::kStrided) return result.use_count() > 1 ? result.detach() : result;
  const bool shared =
      result.use_count() > 1 || (has_plain_storage(result) && result.storage().use_count() > 1);
  return shared ? result.alias() : result;
}

}  // namespace

ReentrantRegion::ResultStamp::ResultStamp(const at::Tensor& tensor, Determinism check) {
  if (check == Determinism::none || !tensor.defined()) return;
  metadata.emplace(tensor.detach());
  if (check == Determinism::values) hash = content_hash(tensor);
}

std::vector<ReentrantRegion::ResultStamp> ReentrantRegion::stamps_of(
    const std::vector<at::Tensor>& results) const {
  std::vector<ResultStamp> stamps;
  for (const at::Tensor& result : results) {
    stamps.emplace_back(result, call_.options().determinism());
  }
  return stamps;
}

std::vector<at::Tensor> ReentrantRegion::run(
    const std::vector<at::Tensor>& arguments,
    const std::function<std::vector<at::Tensor>()>& first) {
  const UnchangedArguments unchanged(arguments);
  {
    Captures captures(arguments);
    const auto draws = call_.watch_first_run();
    const std::shared_ptr<void> context =
        call_.options().forward_context() ? call_.options().forward_context()() : nullptr;
    results_ = first();
    captured_ = std::move(captures).take_leaves(label());
  }
  call_.end_first_run();
  unchanged.check(label());
  stamps_ = stamps_of(results_);
  std::vector<at::Tensor> of_node;
  for (const at::Tensor& result : results_) {
    differentiable_.push_back(can_have_gradient(result));
    if (differentiable_.back()) of_node.push_back(only_ours(result));
  }
  if (of_node.empty()) {
    throw UsageError(label() +
                         ": its function returns no tensor that could have a gradient, or "
                         "none that can be found",
                     "return floating-point tensors, in what nested.h knows, or use "
                     "Variant::non_reentrant");
  }
  log_region(call_.options().name(), std::nullopt, call_.options().preserve_rng());
  return of_node;
}

std::vector<at::Tensor> ReentrantRegion::results(const std::vector<at::Tensor>& of_node) && {
  auto next = of_node.begin();
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (differentiable_[i]) results_[i] = *next++;
  }
  return std::exchange(results_, {});
}

std::vector<at::Tensor> ReentrantRegion::run_again(const std::vector<at::Tensor>& arguments) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  for (const VersionStamp& captured : captured_) captured.check();
  std::vector<at::Tensor> again;
  const bool same_draws = call_.run_again([&](ReplayCall& function) {
    const std::shared_ptr<void> context =
        call_.options().replay_context() ? call_.options().replay_context()() : nullptr;
    again = function.run(arguments);
  });
  const std::string hint =
      "the function must do the same work each time it is run: look for state that changes between "
      "the forward and the backward pass, or use Variant::non_reentrant";
  if (!same_draws) {
    throw RecomputeMismatch(
        label() + ": the replay drew random numbers where the forward pass did not", hint);
  }
  if (stamps_of(again) != stamps_) {
    throw RecomputeMismatch(label() + ": its replay returned other tensors than the forward pass",
                            hint);
  }
  std::vector<at::Tensor> of_node;
  for (std::size_t i = 0; i < again.size(); ++i) {
    if (differentiable_[i]) of_node.push_back(again[i]);
  }
  return of_node;
}

}  // namespace reprise::detail
