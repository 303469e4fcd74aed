// SPDX-License-Identifier: BSD-3-Clause
#include "report_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <reprise/budget_infeasible.h>
#include <reprise/error.h>
#include <reprise/snapshot.h>

#include "terminal.h"
#include "workloads/memory_timeline.h"
#include "workloads/stores.h"
#include "workloads/use_budget.h"
#include "workloads/words.h"

namespace reprise::command {
namespace {

std::string& command_line() {
  static auto& line = *new std::string;
  return line;
}

// As one would type it into a shell.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return text + "'";
}

// With its point, in small letters; empty where there is none.
std::string ending(const std::string& path) {
  std::string text = std::filesystem::path(path).extension().string();
  for (char& each : text) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text;
}

bool is_picture(const std::string& path) { return ending(path) == ".svg"; }

void require_ending(const std::string& option, const std::string& path,
                    const std::vector<std::string>& known) {
  const std::string found = ending(path);
  for (const std::string& each : known) {
    if (found == each || found.empty()) return;
  }
  throw UsageError(option + ": '" + path + "' does not end in " + workloads::join(known),
                   "the ending says what is written: give it one of these, or none for the first");
}

bool on_cpu(const Options& options) {
  return workloads::parse_device(options.text("--device").value_or("cpu")).is_cpu();
}

bool shows_memory(const Options& options) {
  const auto report = options.text("--report");
  return (report && !is_picture(*report)) || options.text("--timeline") ||
         options.text("--snapshot");
}

// A strategy whose step is recorded, and what it runs under.
struct Recorded {
  workloads::Strategy strategy;
  std::optional<Budget> budget = std::nullopt;
};

struct Subject {
  std::vector<Recorded> steps = {};
  workloads::StepKind kind = workloads::StepKind::gradients;
  std::optional<int64_t> parts = std::nullopt;  // as each strategy says
};

// Of a share, the plain step has been measured by now.
Recorded recorded(const Training& training, const std::optional<std::string>& folder,
                  workloads::Workload& workload) {
  const torch::Device device = workload.device();
  const int64_t limit = training.budget ? training.budget->limit : 0;
  workloads::Strategy strategy = training.strategy == "plan"
                                     ? workloads::plan_strategy(limit, folder.has_value())
                                     : workloads::parse_strategy(training.strategy);
  make_store(strategy, folder, workload);
  if (!training.budget) return {strategy};
  if (workloads::budget_of(strategy)->bytes > 0) {
    return {strategy, workloads::make_budget(strategy, device)};
  }
  return {strategy, workloads::make_budget(strategy, std::max<int64_t>(1, limit), device)};
}

Subject subject_of(const Report& report, const std::optional<std::string>& folder,
                   workloads::Workload& workload) {
  Subject subject;
  if (report.training) {
    subject.kind = workloads::StepKind::training;
    subject.parts = report.training->accumulate;
    subject.steps.push_back(recorded(*report.training, folder, workload));
  } else if (report.comparison) {
    for (const StrategyRow& row : report.comparison->rows) {
      Recorded step = {workloads::parse_strategy(row.strategy)};
      make_store(step.strategy, folder, workload);
      if (row.budget_bytes) {
        step.budget = workloads::make_budget(step.strategy, *row.budget_bytes, workload.device());
      }
      subject.steps.push_back(std::move(step));
    }
  }
  return subject;
}

std::vector<NamedTimeline> record(workloads::Workload& workload, Subject subject) {
  ProgressLine line;
  std::vector<NamedTimeline> timelines;
  for (Recorded& step : subject.steps) {
    line.show("recording memory: " + step.strategy.text);
    Budget* budget = step.budget ? &*step.budget : nullptr;
    try {
      timelines.push_back(
          {step.strategy.text,
           workloads::record_step(workload, step.strategy, subject.kind, subject.parts, budget)});
    } catch (const BudgetInfeasible&) {
      line.wipe();
      print_warning("the memory of " + step.strategy.text +
                    " is not recorded: its budget is too small for a step without its plan");
    }
  }
  return timelines;
}

std::string picture_of(const Report& report) {
  if (!report.curves.empty()) return to_svg(report.curves.front());
  if (report.comparison) return to_svg(*report.comparison);
  if (report.training) return to_svg(*report.training);
  return to_svg(report.timelines);
}

}  // namespace

void remember_command_line(int argc, const char* const* argv) {
  command_line() = "reprise";
  for (int i = 1; i < argc; ++i) command_line() += " " + quoted(argv[i]);
}

void add_report_options(Options& options) {
  options.add("--report", "FILE",
              "write a report to read, too: FILE.html; FILE.svg is its main picture alone");
  options.add("--timeline", "FILE", "write memory over time as a picture, too: FILE.svg");
  options.add("--snapshot", "FILE",
              "write memory over time for PyTorch's viewer, too: FILE.pickle for memory_viz");
}

void check_report_files(const Options& options) {
  const auto check = [&](const std::string& option, const std::vector<std::string>& endings) {
    const auto path = options.text(option);
    if (!path) return false;
    require_ending(option, *path, endings);
    check_writable(*path);
    return true;
  };
  check("--report", {".html", ".htm", ".svg"});
  check("--timeline", {".svg"});
  check("--snapshot", {".pickle"});
  if (!on_cpu(options)) refuse_recordings(options, "memory is recorded on the CPU only");
}

void refuse_recordings(const Options& options, const std::string& reason) {
  for (const char* option : {"--timeline", "--snapshot"}) {
    if (!options.text(option)) continue;
    throw UsageError(reason + ", so that " + option + " has nothing to show", "leave it out");
  }
  const auto report = options.text("--report");
  if (options.verb() == "profile" && report && is_picture(*report)) {
    throw UsageError(reason + ", so that the picture '" + *report + "' has nothing to show",
                     "name a file that ends in .html: the report has more than that picture");
  }
}

void write_reports(const Options& options, workloads::Workload& workload, Report report) {
  const auto page = options.text("--report");
  const auto timeline = options.text("--timeline");
  const auto snapshot = options.text("--snapshot");
  if (!page && !timeline && !snapshot) return;
  report.title = "reprise " + options.verb() + " " + workload.name();
  report.command = command_line();
  report.machine = describe_machine();
  if (on_cpu(options)) {
    if (report.timelines.empty() && shows_memory(options)) {
      const bool stores = report.training || report.comparison;
      const auto folder = stores ? options.text("--store") : std::nullopt;
      report.timelines = record(workload, subject_of(report, folder, workload));
    }
  } else {
    report.notes.emplace_back("Memory over time is recorded on the CPU only.");
  }
  if (page) write_file(*page, is_picture(*page) ? picture_of(report) : to_html(report));
  if (timeline) write_file(*timeline, to_svg(report.timelines));
  if (snapshot) write_file(*snapshot, to_snapshot(report.timelines));
}

}  // namespace reprise::command
