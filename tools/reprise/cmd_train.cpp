// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

#include <reprise/error.h>
#include <reprise/report.h>

#include "commands.h"
#include "interrupt.h"
#include "options.h"
#include "report_files.h"
#include "terminal.h"
#include "workloads/plan_workload.h"
#include "workloads/step_by_shapes.h"
#include "workloads/stores.h"
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
            << "seed        " << training.seed << "\n";
  if (training.accumulate > 1) {
    std::cout << "accumulate  each batch in " << training.accumulate << " parts\n";
  }
  if (!training.autocast.empty()) std::cout << "autocast    " << training.autocast << "\n";
  if (options.resume) std::cout << "resume      from " << *options.resume << "\n";
  if (options.plan) {
    const Plan& plan = options.plan->plan;
    std::cout << "plan        " << format_bytes(plan.budget_bytes) << " above base; predicted "
              << format_bytes(plan.peak_bytes) << " and "
              << number("%.2f", plan.microseconds / 1000) << " ms, plain "
              << format_bytes(plan.plain_peak_bytes) << " and "
              << number("%.2f", plan.plain_microseconds / 1000)
              << " ms; the optimizer comes on top\n";
  }
  std::cout << "stop        " << stop_text(options) << "\n\n" << std::flush;
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

std::string quality_text(const Training& training) {
  if (training.quality_unit == "%") return number("%.2f", *training.quality * 100) + " %";
  return number("%.4f", *training.quality) +
         (training.quality_unit.empty() ? "" : " " + training.quality_unit);
}

// What a text model writes may hold any byte, and a terminal obeys some of them.
std::string printable(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += c == '\n' || (byte >= 32 && byte < 127) ? std::string(1, c) : "?";
  }
  return result;
}

void print_end(const Training& training) {
  const int64_t steps = training.steps - training.first_step + 1;
  std::cout << "\n"
            << steps << (steps == 1 ? " step" : " steps") << " in "
            << number("%.1f", training.seconds) << " s, "
            << number("%.0f", training.samples_per_second) << " samples/s, loss "
            << number("%.9g", training.loss);
  if (training.until_loss && !training.reached_loss) {
    std::cout << " (" << number("%g", *training.until_loss) << " was not reached)";
  }
  if (training.quality) {
    std::cout << ", " << training.quality_name << " " << quality_text(training);
  }
  std::cout << ", largest peak " << format_bytes(training.total_peak_bytes) << " ("
            << format_bytes(training.peak_bytes) << " above base)\n";
  if (training.skipped_steps > 0) {
    std::cout << training.skipped_steps << " of them left out, as a gradient was not finite\n";
  }
  if (training.budget) std::cout << "\nbudget\n" << *training.budget;
  if (training.offload) std::cout << "\noffload\n" << *training.offload;
  if (!training.sample.empty()) std::cout << "\nsample:\n" << printable(training.sample) << "\n";
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

// One line that tells where the run is, and when it will end if that is known.
class StepProgress {
 public:
  StepProgress(std::optional<int64_t> steps, int64_t samples) : steps_(steps), samples_(samples) {}

  void show(const TrainingStep& step) {
    ++taken_;
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const std::chrono::duration<double> elapsed = now - start_;
    const double each = elapsed.count() / static_cast<double>(taken_);
    line_.show("step " + std::to_string(step.step) +
               (steps_ ? " of " + std::to_string(*steps_) : "") + ", loss " +
               number("%.4g", step.loss) + ", " +
               number("%.0f", static_cast<double>(samples_) / each) + " samples/s, " +
               (steps_ ? duration_text(each * static_cast<double>(*steps_ - step.step)) + " left"
                       : duration_text(elapsed.count())));
  }

  void wipe() { line_.wipe(); }

  int64_t taken() const { return taken_; }

 private:
  std::optional<int64_t> steps_;
  int64_t samples_;
  int64_t taken_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_;
  ProgressLine line_;
};

void print_interrupted(const Training& training, const workloads::TrainOptions& settings) {
  std::cout << "interrupted after step " << training.steps;
  if (settings.save) std::cout << "; go on with --resume " << *settings.save;
  std::cout << "\n";
}

// At most one of the three says what is kept and what is run again.
void choose_strategy(const Options& options, workloads::TrainOptions& settings) {
  settings.strategy = workloads::parse_strategy(options.text("--strategy").value_or("plain"));
  if (const auto budget = budget_strategy(options)) {
    if (options.text("--strategy")) {
      throw UsageError("--budget together with --strategy", "a budget chooses what is recomputed");
    }
    settings.strategy = *budget;
  }
  const auto plan = options.text("--plan");
  if (!plan) return;
  for (const char* other : {"--budget", "--strategy"}) {
    if (!options.text(other)) continue;
    throw UsageError("--plan together with " + std::string(other),
                     "a plan has its budget, and says what is recomputed");
  }
  settings.plan = workloads::read_plan_file(*plan);
  settings.strategy =
      workloads::plan_strategy(settings.plan->plan.budget_bytes, settings.plan->plan.sends());
}

// The first step of a budget goes online, and needs more than a plan does: where it does not fit,
// the steps are planned for by their shapes, and the first one follows the plan, too.
Training train_within(const Options& options, std::unique_ptr<workloads::Workload>& workload,
                      workloads::TrainOptions& settings, StepProgress& progress) {
  try {
    return workloads::train(*workload, settings);
  } catch (const BudgetInfeasible& error) {
    progress.wipe();
    const auto shapes = workloads::step_by_shapes(workload_name(options), workload_options(options),
                                                  settings.accumulate);
    if (!shapes) throw;
    workloads::make_store(settings.strategy, settings.store, *workload);
    settings.shapes = workloads::with_store(*shapes, settings.strategy);
    if (settings.plan || progress.taken() > 0) throw workloads::explained(error, *settings.shapes);
  }
  try {
    workload = make_workload(options, options.positive_real("--learning-rate"));
    return workloads::train(*workload, settings);
  } catch (const BudgetInfeasible& error) {
    progress.wipe();
    throw workloads::explained(error, *settings.shapes);
  }
}

int run(const Options& options) {
  workloads::TrainOptions settings;
  choose_strategy(options, settings);
  settings.steps = options.whole("--steps", 1, std::numeric_limits<int64_t>::max());
  settings.until_loss = options.positive_real("--until-loss");
  settings.log_every = options.whole("--log-every").value_or(settings.log_every);
  settings.accumulate = options.whole("--accumulate").value_or(1);
  settings.resume = options.text("--resume");
  settings.store = options.text("--store");
  settings.save = options.text("--save");
  settings.save_every = options.whole("--save-every").value_or(0);
  auto workload = make_workload(options, options.positive_real("--learning-rate"));
  if (!settings.steps && !settings.until_loss) {
    settings.until_loss = workload->target_loss();
    settings.steps = workload->default_steps();
  }
  if (settings.plan) {
    if (const auto warning = workloads::require_fit(*settings.plan, *workload)) {
      print_warning(*warning);
    }
  }
  const int64_t samples = workload->samples_per_batch();
  print_header(workloads::describe(*workload, settings), settings);
  const Training training = [&] {
    StepProgress progress(settings.steps, samples);
    const InterruptScope interrupt;
    settings.interrupted = InterruptScope::requested;
    settings.on_step = [&](const TrainingStep& step) { progress.show(step); };
    settings.on_log = [&](const TrainingStep& step) {
      progress.wipe();
      print_step(step, settings.steps, samples);
    };
    return train_within(options, workload, settings, progress);
  }();
  print_end(training);
  if (training.interrupted) print_interrupted(training, settings);
  for (const std::string& warning : training.warnings) print_warning(warning);
  if (options.flag("--regions"))
    std::cout << "\n" << region_table(training.regions, stdout_style());
  write_json(options, to_json(training));
  Report report;
  report.training = training;
  write_reports(options, *workload, report);
  return kOk;
}

}  // namespace

Run add_train(CLI::App& verb) {
  const auto options = std::make_shared<Options>(verb);
  add_run_options(*options);
  options->add("--strategy", "S", "default plain");
  options->add("--budget", "SIZE|P%",
               "train inside so many bytes, all counted, or a part of the plain peak above base");
  options->add("--plan", "FILE", "train by a plan that reprise plan -o has written");
  add_store_option(*options);
  options->add_flag("--regions", "print what each region did, too");
  options->add("--steps", "N",
               "stop after N steps, default 1500 for gpt and bert without --until-loss");
  options->add("--until-loss", "X",
               "stop at a loss of X or less, default 0.001 for digits without --steps");
  options->add("--log-every", "N", "print the first step, every N-th and the last, default 10000");
  options->add("--learning-rate", "X", "default 0.01, with AdamW 0.001, for resnet50 0.003");
  options->add("--accumulate", "N", "take each batch in N parts, one after the other, default 1");
  options->add("--save", "FILE", "write a resume file at the end, or when interrupted");
  options->add("--save-every", "N", "and every N steps");
  options->add("--resume", "FILE", "go on from a resume file; --steps counts its steps, too");
  verb.footer(workloads::strategy_grammar());
  return [options] { return run(*options); };
}

}  // namespace reprise::command
