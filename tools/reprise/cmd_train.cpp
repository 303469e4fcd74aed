// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <iostream>
#include <memory>

#include <reprise/report.h>

#include "commands.h"
#include "options.h"
#include "report_files.h"
#include "terminal.h"
#include "workloads/train.h"

// reprise train: a training run under one strategy, its loss and its memory.

namespace reprise::command {
namespace {

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string stop_text(const workloads::TrainOptions& options) {
  std::string text;
  if (options.steps) text = "after " + std::to_string(*options.steps) + " steps";
  if (options.until_loss) {
    text += (text.empty() ? "" : ", or ") + ("at a loss of " + number("%g", *options.until_loss));
  }
  return text;
}

void print_header(const Training& training, const workloads::TrainOptions& options) {
  std::cout << "workload    " << training.workload << ", " << training.parameters << " parameters\n"
            << "strategy    " << training.strategy << "\n"
            << "device      " << training.device << ", " << training.threads
            << (training.threads == 1 ? " thread" : " threads") << ", LibTorch "
            << training.libtorch << "\n"
            << "seed        " << training.seed << "\n"
            << "stop        " << stop_text(options) << "\n\n"
            << std::flush;
}

// Nine digits tell any two float32 apart, so that two runs can be compared by eye.
void print_step(const TrainingStep& step, const std::optional<int64_t>& steps, int64_t samples) {
  const std::string last = steps ? std::to_string(*steps) : "";
  std::string count = std::to_string(step.step);
  if (count.size() < last.size()) count.insert(0, last.size() - count.size(), ' ');
  std::cout << "step " << count << (steps ? "/" + last : "") << " | loss "
            << number("%-11.9g", step.loss) << " | peak " << format_bytes(step.total_peak_bytes)
            << " (" << format_bytes(step.peak_bytes) << " above base) | "
            << number("%.2f", step.step_ms) << " ms | "
            << number("%.0f", static_cast<double>(samples) * 1000 / step.step_ms) << " samples/s\n"
            << std::flush;
}

void print_end(const Training& training) {
  std::cout << "\n"
            << training.steps << (training.steps == 1 ? " step" : " steps") << " in "
            << number("%.1f", training.seconds) << " s, loss " << number("%.9g", training.loss);
  if (training.until_loss && !training.reached_loss) {
    std::cout << " (" << number("%g", *training.until_loss) << " was not reached)";
  }
  if (training.quality) {
    std::cout << ", " << training.quality_name << " " << number("%.2f", *training.quality * 100)
              << " %";
  }
  std::cout << ", largest peak " << format_bytes(training.total_peak_bytes) << " ("
            << format_bytes(training.peak_bytes) << " above base)\n";
}

int run(const Options& options) {
  workloads::TrainOptions settings;
  settings.strategy = workloads::parse_strategy(options.text("--strategy").value_or("plain"));
  settings.steps = options.whole("--steps", 1, std::numeric_limits<int64_t>::max());
  settings.until_loss = options.positive_real("--until-loss");
  settings.log_every = options.whole("--log-every").value_or(settings.log_every);
  const auto workload = make_workload(options, options.positive_real("--learning-rate"));
  if (!settings.steps && !settings.until_loss) settings.until_loss = workload->target_loss();
  const int64_t samples = workload->samples_per_batch();
  settings.on_log = [&](const TrainingStep& step) { print_step(step, settings.steps, samples); };
  print_header(workloads::describe(*workload, settings), settings);
  const Training training = workloads::train(*workload, settings);
  print_end(training);
  if (options.flag("--regions"))
    std::cout << "\n" << region_table(training.regions, stdout_style());
  write_json(options, to_json(training));
  write_reports(options, *workload, {.training = training});
  return kOk;
}

}  // namespace

Run add_train(CLI::App& verb) {
  const auto options = std::make_shared<Options>(verb);
  add_run_options(*options);
  options->add("--strategy", "S", "default plain");
  options->add_flag("--regions", "print what each region did, too");
  options->add("--steps", "N", "stop after N steps");
  options->add("--until-loss", "X",
               "stop at a loss of X or less, default 0.001 for digits without --steps");
  options->add("--log-every", "N", "print the first step, every N-th and the last, default 10000");
  options->add("--learning-rate", "X", "default 0.01");
  verb.footer(workloads::strategy_grammar());
  return [options] { return run(*options); };
}

}  // namespace reprise::command
