// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

// Settings outside the tensors that decide what an operator computes: captured in the forward pass,
// in force again for the replay, then put back.

namespace reprise::detail {

/// Autocast of each device type in question, default dtype, the number of threads (it decides how
/// large sums are split, and so their last bits), and whether denormal numbers become zero.
class Environment {
 public:
  /// What is in force on this thread.
  static Environment capture();

  /// Puts it in force on this thread.
  void apply() const;

 private:
  struct Autocast {
    c10::DeviceType device;
    bool enabled;
    c10::ScalarType dtype;
    bool operator==(const Autocast&) const = default;
  };
  std::vector<Autocast> autocast_;
  bool autocast_cache_ = true;
  c10::ScalarType default_dtype_ = c10::ScalarType::Float;
  int threads_ = 1;
  bool flush_denormal_ = false;
};

/// Puts an environment in force while it lives. Weights that autocast casts meanwhile are cached no
/// longer than that, unless an autocast scope is open around it.
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
