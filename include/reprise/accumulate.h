// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

// Gradient accumulation: several batches, or parts of one, make one step of the optimizer, and only
// one of them is in memory at a time.

namespace torch::optim {
class Optimizer;
}

namespace reprise {

/// Collects the gradients of a group of batches so that the optimizer sees the gradient of their
/// weighted mean loss:
///
///     GradientAccumulator group(4);
///     for (auto& batch : loader) {
///       group.backward(loss_of(batch), batch.size());
///       if (!group.full()) continue;
///       group.finish(optimizer);
///       optimizer.step();
///       optimizer.zero_grad();
///     }
///     if (!group.empty()) { group.finish(optimizer); ... }  // the last group may be partial
///
/// A loss that is a mean weighs as many samples (or tokens) as it is the mean of; batches of one
/// size may leave weights out. With a GradScaler give `scaler.scale(loss)`. The sums run in another
/// order than over one large batch, so gradients equal its own only up to rounding, and modules
/// that look at a batch as a whole, such as batch norm, see the smaller ones. Not thread-safe.
class REPRISE_API GradientAccumulator {
 public:
  /// Throws UsageError unless `size`, the batches of a full group, is 1 or more.
  explicit GradientAccumulator(int64_t size);

  /// Runs the backward pass of `loss`, scaled so that a full group of equal weights needs nothing
  /// more. Throws UsageError for a weight that is not positive and finite, and when the group is
  /// full.
  void backward(const at::Tensor& loss, double weight = 1);

  /// Ends the group: scales the optimizer's gradients, in place, to what its weights make of them,
  /// which does nothing to a full group of equal weights. Throws UsageError for an empty group.
  void finish(torch::optim::Optimizer& optimizer);

  /// The same for gradients that no optimizer holds.
  void finish(const std::vector<at::Tensor>& parameters);

  /// Forgets the group, as after an exception. The gradients are the caller's to clear.
  void reset();

  int64_t size() const { return size_; }
  int64_t count() const { return count_; }  ///< batches so far
  bool full() const { return count_ == size_; }
  bool empty() const { return count_ == 0; }

 private:
  int64_t size_;
  int64_t count_ = 0;
  double unit_ = 0;  // the weight of the first batch, by which the others are measured
  double total_ = 0;
};

}  // namespace reprise
