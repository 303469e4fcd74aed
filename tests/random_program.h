// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <ATen/ATen.h>

// Random programs with regions of every way in each other. The fuzzer of the tape
// (tests/internal/fuzz) knows more operators; here it is the regions that are mixed.

namespace reprise::testing {

/// What programs are made of.
struct Grammar {
  bool regions = false;
  bool whole_functions = false;  // among the regions
  bool inner_gradients = false;  // taken in the middle of a region
  bool failures = false;         // some regions throw, and the program goes on without them
};

/// Throws at one of the steps to come, wherever that is: in a forward pass or in a replay.
class FaultInjector {
 public:
  class Fault : public std::runtime_error {
    using runtime_error::runtime_error;
  };

  /// At the `steps`-th step from now on; never if that is 0.
  void arm(int64_t steps) { steps_ = steps; }
  void step() {
    if (steps_ > 0 && --steps_ == 0) throw Fault("injected");
  }

 private:
  std::atomic<int64_t> steps_{0};
};

/// A program is a seed: run again with the same seed and arguments, it does the same work.
class RandomProgram {
 public:
  /// `weight` is [n, n]; the programs' tensors are [m, n], with n of 2 or more. `faults` may be
  /// null; else it must outlive all graphs.
  RandomProgram(at::Tensor weight, Grammar grammar, FaultInjector* faults = nullptr);

  /// Begins with `pool`; returns two tensors that it made. Regions go `depth` deep.
  std::vector<at::Tensor> run(std::vector<at::Tensor> pool, unsigned seed, int depth) const;

  /// How many regions were recorded in this process by programs; replays of them do not count.
  static int64_t regions();

 private:
  at::Tensor step(unsigned which, const at::Tensor& a, const at::Tensor& b) const;
  std::vector<at::Tensor> region(std::vector<at::Tensor> arguments, unsigned seed, int depth) const;

  at::Tensor weight_;
  Grammar grammar_;
  FaultInjector* faults_;
};

}  // namespace reprise::testing
