// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "torch/autocast.h"

// Settings outside the tensors that decide what an operator computes: captured in the forward pass,
// in force again for the replay, then put back.

namespace reprise::detail {

/// What decides how a kernel computes: the default dtype, the number of threads (it decides how
/// large sums are split, and so their last bits), and whether denormal numbers become zero.
class Numerics {
 public:
  /// What is in force on this thread.
  static Numerics capture();

  /// Puts it in force on this thread.
  void apply() const;

 private:
  c10::ScalarType default_dtype_ = c10::ScalarType::Float;
  int threads_ = 1;
  bool flush_denormal_ = false;
};

/// The same, and what decides which kernel is called: autocast of each device type in question, and
/// the current device of the accelerator.
class Environment {
 public:
  static Environment capture();
  void apply() const;

 private:
  std::vector<std::pair<c10::DeviceType, AutocastSettings>> autocast_;
  bool autocast_cache_ = true;
  std::optional<c10::DeviceIndex> current_device_;  // of the accelerator, where there is one
  Numerics numerics_;
};

/// Puts settings in force while it lives. For operators: whoever replays them below autocast must
/// not touch autocast, since to switch it on is to come out from below it.
class NumericsReplay {
 public:
  explicit NumericsReplay(const Numerics& numerics);
  ~NumericsReplay();
  NumericsReplay(const NumericsReplay&) = delete;
  NumericsReplay& operator=(const NumericsReplay&) = delete;

 private:
  const Numerics before_;
};

/// For functions. Weights that autocast casts meanwhile are cached no longer than this lives,
/// unless an autocast scope is open around it.
class EnvironmentReplay {
 public:
  explicit EnvironmentReplay(const Environment& environment);
  ~EnvironmentReplay();
  EnvironmentReplay(const EnvironmentReplay&) = delete;
  EnvironmentReplay& operator=(const EnvironmentReplay&) = delete;

 private:
  const Environment before_;
};

}  // namespace reprise::detail
