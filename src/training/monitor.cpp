// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdio>

#include <reprise/error.h>
#include <reprise/monitor.h>
#include <reprise/report.h>

#include <ATen/DeviceAccelerator.h>

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

void synchronize(c10::Device device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

TrainMonitor::TrainMonitor(c10::Device device, int64_t growing_steps)
    : meter_(device), growing_steps_(growing_steps) {
  if (growing_steps >= 2) return;
  throw UsageError(
      "TrainMonitor: a warning after " + std::to_string(growing_steps) + " growing steps",
      "memory also grows while a loop warms up: use 2 or more, default 8");
}

TrainMonitor::~TrainMonitor() = default;

void TrainMonitor::begin_step() {
  if (scope_) {
    throw UsageError("TrainMonitor: begin_step() inside a step",
                     "call end_step() first, or abandon_step() after an exception");
  }
  synchronize(meter_.device());
  scope_.emplace(meter_);
  start_ = Clock::now();
}

MonitoredStep TrainMonitor::end_step(int64_t samples) {
  if (!scope_) {
    throw UsageError("TrainMonitor: end_step() without a step", "call begin_step() first");
  }
  synchronize(meter_.device());
  const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start_;
  MonitoredStep step;
  step.step = static_cast<int64_t>(steps_.size()) + 1;
  step.base_bytes = scope_->base();
  step.peak_bytes = scope_->peak_above_base();
  step.total_peak_bytes = scope_->peak();
  step.milliseconds = elapsed.count();
  step.samples = samples;
  scope_.reset();
  steps_.push_back(step);
  look_for_growth();
  return step;
}

void TrainMonitor::abandon_step() { scope_.reset(); }

void TrainMonitor::note_loss(double loss) {
  if (steps_.empty()) {
    throw UsageError("TrainMonitor: note_loss() before the first step", "call end_step() first");
  }
  steps_.back().loss = loss;
}

void TrainMonitor::note_quality(const std::string& name, double value) { qualities_[name] = value; }

// The optimizer's state and caches make the first steps grow: a row of growing steps begins anew
// with each step that does not.
void TrainMonitor::look_for_growth() {
  if (steps_.size() < 2) return;
  const MonitoredStep& now = steps_.back();
  const MonitoredStep& before = steps_[steps_.size() - 2];
  base_growth_ = now.base_bytes > before.base_bytes ? base_growth_ + 1 : 0;
  peak_growth_ = now.total_peak_bytes > before.total_peak_bytes ? peak_growth_ + 1 : 0;
  const auto text = [&](const char* what, int64_t rows, int64_t MonitoredStep::*bytes) {
    const MonitoredStep& first = steps_[steps_.size() - 1 - static_cast<std::size_t>(rows)];
    return std::string(what) + " grown in each of the last " + std::to_string(rows) +
           " steps, from " + format_bytes(first.*bytes) + " to " + format_bytes(now.*bytes);
  };
  if (base_growth_ >= growing_steps_ && !warned_of_base_) {
    warned_of_base_ = true;
    warnings_.push_back(
        text("the bytes that live between steps have", base_growth_, &MonitoredStep::base_bytes) +
        ": does something keep the tensors of past steps, such as a sum of losses without item()?");
  }
  if (peak_growth_ >= growing_steps_ && !warned_of_peak_ && !warned_of_base_) {
    warned_of_peak_ = true;
    warnings_.push_back(text("the peak has", peak_growth_, &MonitoredStep::total_peak_bytes) +
                        ": do the batches grow?");
  }
}

MonitorSummary TrainMonitor::summary() const {
  MonitorSummary summary;
  summary.steps = static_cast<int64_t>(steps_.size());
  std::vector<double> times;
  double counted_ms = 0, counted_samples = 0;
  for (const MonitoredStep& step : steps_) {
    times.push_back(step.milliseconds);
    summary.seconds += step.milliseconds / 1000;
    summary.peak_bytes = std::max(summary.peak_bytes, step.peak_bytes);
    summary.total_peak_bytes = std::max(summary.total_peak_bytes, step.total_peak_bytes);
    if (step.step > 1 || steps_.size() == 1) {
      counted_ms += step.milliseconds;
      counted_samples += static_cast<double>(step.samples);
    }
    if (!step.loss) continue;
    if (!summary.first_loss) summary.first_loss = step.loss;
    summary.loss = step.loss;
    summary.best_loss = std::min(summary.best_loss.value_or(*step.loss), *step.loss);
  }
  summary.step_ms_median = median(times);
  if (!times.empty()) summary.step_ms_min = *std::min_element(times.begin(), times.end());
  if (counted_ms > 0) summary.samples_per_second = counted_samples * 1000 / counted_ms;
  summary.rss_peak_bytes = resident_peak_bytes();
  summary.qualities = qualities_;
  summary.warnings = warnings_;
  return summary;
}

std::string to_text(const MonitorSummary& summary) {
  std::string text = std::to_string(summary.steps) + (summary.steps == 1 ? " step" : " steps") +
                     " in " + number("%.1f", summary.seconds) + " s, median " +
                     number("%.2f", summary.step_ms_median) + " ms";
  if (summary.samples_per_second > 0) {
    text += ", " + number("%.0f", summary.samples_per_second) + " samples/s";
  }
  text += "\npeak " + format_bytes(summary.total_peak_bytes) + ", " +
          format_bytes(summary.peak_bytes) + " above the step's base";
  if (summary.rss_peak_bytes) {
    text += "; resident peak of the process " + format_bytes(*summary.rss_peak_bytes);
  }
  text += "\n";
  if (summary.loss) {
    text += "loss " + number("%.6g", *summary.loss) + ", from " +
            number("%.6g", *summary.first_loss) + "; the best was " +
            number("%.6g", *summary.best_loss) + "\n";
  }
  for (const auto& [name, value] : summary.qualities) {
    text += name + " " + number("%.6g", value) + "\n";
  }
  for (const std::string& warning : summary.warnings) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace reprise
