// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <reprise/checkpoint_options.h>
#include <reprise/detail/bound_call.h>
#include <reprise/export.h>

// Variant::reentrant: a region that runs without a graph, and stands in the graph as one node.

namespace reprise::detail {

/// Calls `first`, which runs the function for the first time and returns the tensors of its result,
/// with gradients off; returns them as results of the region's node.
REPRISE_API std::vector<at::Tensor> reentrant_forward(
    const CheckpointOptions& options, std::shared_ptr<ReplayCall> call,
    const std::function<std::vector<at::Tensor>()>& first);

[[noreturn]] REPRISE_API void throw_no_result_tensors(const CheckpointOptions& options);

template <class First>
decltype(auto) run_reentrant(const CheckpointOptions& options, std::shared_ptr<ReplayCall> call,
                             First&& first) {
  using Result = decltype(first());
  if constexpr (returns_tensors<Result>()) {
    std::optional<Result> result;
    const auto take = [&] {
      result.emplace(first());
      std::vector<at::Tensor> tensors;
      visit_nested(*result, TensorTaker{tensors});
      return tensors;
    };
    const std::vector<at::Tensor> tensors = reentrant_forward(options, std::move(call), take);
    visit_nested(*result, TensorFiller{tensors});
    return Result(std::move(*result));
  } else {
    throw_no_result_tensors(options);
    return first();  // never, but it says what is returned
  }
}

}  // namespace reprise::detail
