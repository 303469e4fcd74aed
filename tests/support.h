// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <reprise/reprise.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

// What many tests need: leaves, gradients, and comparisons bit by bit.

namespace reprise::testing {

using at::Tensor;

/// A leaf of normal random numbers that requires grad, the same for the same seed.
inline Tensor leaf(at::IntArrayRef sizes, uint64_t seed = 1) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator).requires_grad_();
}

inline ::testing::AssertionResult same_bits(const std::vector<Tensor>& a,
                                            const std::vector<Tensor>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " tensors against " << b.size();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (bit_equal(a[i], b[i])) continue;
    return ::testing::AssertionFailure() << "tensor " << i << " differs:\n" << a[i] << "\n" << b[i];
  }
  return ::testing::AssertionSuccess();
}

/// Runs `loss()` from a fixed seed and returns its value and the gradients of `leaves`, which are
/// cleared before and after.
inline std::vector<Tensor> loss_and_gradients(const std::vector<Tensor>& leaves,
                                              const std::function<Tensor()>& loss,
                                              uint64_t seed = 7) {
  torch::manual_seed(seed);
  for (Tensor leaf : leaves) leaf.mutable_grad() = Tensor();
  const Tensor value = loss();
  value.backward();
  std::vector<Tensor> result{value.detach()};
  for (Tensor leaf : leaves) {
    result.push_back(leaf.grad());
    leaf.mutable_grad() = Tensor();
  }
  return result;
}

/// The message of the exception of type E that `work` throws; empty, and a failure, if none.
template <class E>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no exception";
  return {};
}

}  // namespace reprise::testing
