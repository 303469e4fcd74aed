// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <reprise/export.h>
#include <reprise/meter.h>

// Watches a training loop, anyone's: what each step needs, how fast it goes, and whether memory
// grows that should not.

namespace reprise {

/// One step as it was measured.
struct MonitoredStep {
  int64_t step = 0;              ///< the first is 1
  int64_t base_bytes = 0;        ///< live before the step
  int64_t peak_bytes = 0;        ///< largest live bytes in the step, above base
  int64_t total_peak_bytes = 0;  ///< the same, base included
  double milliseconds = 0;
  int64_t samples = 0;
  std::optional<double> loss;
};

/// A run so far.
struct MonitorSummary {
  int64_t steps = 0;
  double seconds = 0;  ///< in steps; what lies between them does not count
  double step_ms_median = 0;
  double step_ms_min = 0;
  double samples_per_second = 0;  ///< over all steps but the first, which warms up
  int64_t peak_bytes = 0;         ///< largest of all steps, above the step's base
  int64_t total_peak_bytes = 0;
  std::optional<int64_t> rss_peak_bytes;  ///< of the process, since it began or was reset
  std::optional<double> first_loss, loss, best_loss;
  std::map<std::string, double> qualities;  ///< the last value of each
  std::vector<std::string> warnings;
};

/// Stands around the steps of a training loop:
///
///     TrainMonitor monitor;
///     for (auto& batch : loader) {
///       monitor.begin_step();
///       auto loss = loss_of(batch);
///       loss.backward();
///       optimizer.step();
///       monitor.end_step(batch.size());
///       monitor.note_loss(loss.item<double>());
///     }
///     std::cout << to_text(monitor.summary());
///
/// It warns, once for each, when the bytes that live between steps or the peak have grown in each
/// of a number of steps in a row, as they do when something keeps the graphs of past steps (a loss
/// that is added up without item() or detach()). It waits for an accelerator at both ends of a
/// step, and measures with a PeakScope, so steps must nest with other scopes. One thread at a time.
class REPRISE_API TrainMonitor {
 public:
  /// Throws as Meter does for a device that cannot be measured, and UsageError unless
  /// `growing_steps`, the steps in a row that are a warning, is 2 or more.
  explicit TrainMonitor(c10::Device device = c10::kCPU, int64_t growing_steps = 8);
  ~TrainMonitor();
  TrainMonitor(const TrainMonitor&) = delete;
  TrainMonitor& operator=(const TrainMonitor&) = delete;

  /// Throws UsageError when a step has begun already.
  void begin_step();

  /// Ends the step and returns what it measured. Throws UsageError when none has begun.
  MonitoredStep end_step(int64_t samples = 0);

  /// Forgets a step that has begun, as after an exception in it. Does nothing where none has.
  void abandon_step();

  /// The loss of the last step.
  void note_loss(double loss);

  /// A measure of how well the model does, by name.
  void note_quality(const std::string& name, double value);

  /// All steps since the start; a loop of a million steps keeps 64 MB of them.
  const std::vector<MonitoredStep>& steps() const { return steps_; }

  /// Warnings so far, each once.
  const std::vector<std::string>& warnings() const { return warnings_; }
  MonitorSummary summary() const;

 private:
  void look_for_growth();

  Meter meter_;
  int64_t growing_steps_;
  std::optional<PeakScope> scope_;
  std::chrono::steady_clock::time_point start_;
  std::vector<MonitoredStep> steps_;
  int64_t base_growth_ = 0;  // steps in a row in which the base has grown
  int64_t peak_growth_ = 0;
  bool warned_of_base_ = false;
  bool warned_of_peak_ = false;
  std::map<std::string, double> qualities_;
  std::vector<std::string> warnings_;
};

/// A few lines for people.
REPRISE_API std::string to_text(const MonitorSummary& summary);

}  // namespace reprise
