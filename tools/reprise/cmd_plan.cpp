// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include <reprise/error.h>
#include <reprise/meta_scope.h>
#include <reprise/plan_report.h>
#include <reprise/store.h>

#include "commands.h"
#include "options.h"
#include "plan_batches.h"
#include "report_files.h"
#include "terminal.h"
#include "workloads/libtorch.h"
#include "workloads/plan_file.h"
#include "workloads/plan_workload.h"
#include "workloads/stores.h"
#include "workloads/words.h"

// reprise plan: a step planned within a budget, before anything is trained.

namespace reprise::command {
namespace {

using workloads::Workload;

// For other budgets, which are only looked at.
constexpr int kFewerEvaluations = 3000;

PlanOptions plan_options(const Options& options, const Workload& workload) {
  PlanOptions settings;
  settings.seed = static_cast<uint64_t>(workload.seed());
  settings.evaluations =
      static_cast<int>(options.whole("--evaluations", 0).value_or(settings.evaluations));
  return settings;
}

TraceOptions trace_options(const Options& options) {
  TraceOptions settings;
  settings.steps = static_cast<int>(options.whole("--steps").value_or(settings.steps));
  return settings;
}

// From plain's peak down to the least that a plan is found for.
std::vector<int64_t> other_budgets(const PlanReport& report) {
  std::vector<int64_t> budgets;
  for (const int64_t percent : {100, 80, 60, 50, 40, 30, 25, 20, 15, 10}) {
    const int64_t bytes = report.plain_peak_bytes / 100 * percent;
    if (bytes > report.least.bytes) budgets.push_back(bytes);
  }
  budgets.push_back(report.least.bytes);
  return budgets;
}

// A plan that fits a budget fits all larger ones.
void take_where_better(std::vector<FrontierPoint>& points, const PlanReport& known) {
  for (FrontierPoint& point : points) {
    if (point.budget_bytes < known.peak_bytes || point.milliseconds <= known.milliseconds) continue;
    point.milliseconds = known.milliseconds;
    point.peak_bytes = known.peak_bytes;
  }
}

void add_other_budgets(PlanReport& report, const StepTrace& trace, PlanOptions settings) {
  settings.evaluations = std::min(settings.evaluations, kFewerEvaluations);
  report.least = describe_least(trace, least_budget(trace, settings));
  const std::vector<int64_t> budgets = other_budgets(report);
  const auto plans = frontier(trace, budgets, settings);
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    if (!plans[i]) continue;
    report.frontier.push_back({budgets[i], plans[i]->peak_bytes, plans[i]->microseconds / 1000,
                               plans[i]->bound_microseconds / 1000});
  }
  take_where_better(report.frontier, report);
}

void describe_run(PlanReport& report, Workload& workload, const TracedStep& step,
                  const std::optional<MetaScope>& shapes) {
  report.workload = workload.name();
  report.device = workload.device().str();
  report.libtorch = workloads::loaded_libtorch().text();
  report.threads = torch::get_num_threads();
  report.parameters = workload.parameter_count();
  report.batch = workload.samples_per_batch();
  report.base_bytes = step.base_bytes;
  report.plain_peak_bytes = step.peak_bytes;  // as measured; the trace's may have a little more
  report.meta = shapes.has_value();
  if (!shapes || shapes->run_operators().empty()) return;
  const std::vector<std::string> names(shapes->run_operators().begin(),
                                       shapes->run_operators().end());
  report.notes.push_back("No shape function is known for " + workloads::join(names) +
                         ": their kernels were run on zeros, with real memory.");
}

std::optional<Store> store_of(const Options& options) {
  const auto folder = options.text("--store");
  return folder ? std::optional<Store>(workloads::store_in(*folder)) : std::nullopt;
}

// What can be seen before anything is measured.
void check_options(const Options& options) {
  if (options.flag("--meta") && options.text("--steps")) {
    throw UsageError("--steps does nothing with --meta", "shapes are looked at once");
  }
  refuse_recordings(options, "a plan records no memory over time");
  if (options.text("--device").value_or("cpu") != "cpu") {
    throw UsageError("steps are planned on the CPU only", "leave --device out");
  }
  const bool batches = options.flag("--max-batch");
  if (batches) {
    for (const char* name : {"--output", "--evaluations", "--steps", "--report", "--store"}) {
      if (!options.text(name)) continue;
      throw UsageError(std::string(name) + " does nothing with --max-batch",
                       "it takes --strategies, --budget, --meta and --json");
    }
    return;
  }
  if (options.text("--strategies")) {
    throw UsageError("--strategies does nothing without --max-batch",
                     "a plan is of one step, within its budget");
  }
  if (!options.text("--budget")) {
    throw UsageError("a budget is missing", "give --budget with a size such as 512MiB, or 50%");
  }
  if (const auto path = options.text("--output")) check_writable(*path);
}

int run(const Options& options) {
  check_options(options);
  if (options.flag("--max-batch")) return plan_batches(options);
  const std::optional<Store> store = store_of(options);
  const workloads::BudgetSize size = *budget_size(options);
  const TraceOptions tracing = trace_options(options);
  std::optional<MetaScope> shapes;
  if (options.flag("--meta")) shapes.emplace();
  const auto workload = make_workload(options);
  const PlanOptions settings = plan_options(options, *workload);
  ProgressLine line;
  line.show(shapes ? "looking at shapes" : "measuring plain steps");
  TracedStep step = workloads::trace_workload(*workload, tracing);
  if (store) {
    line.show("measuring the store");
    step.trace.store = trace_store(*store);
  }
  const int64_t above_base = workloads::bytes_above_base(
      "--budget " + *options.text("--budget") + ": ", size, step.base_bytes, step.peak_bytes);
  line.show("planning for " + format_bytes(above_base) + " above base");
  const Plan plan = workloads::plan_within("", step, above_base, settings);
  line.show("looking at other budgets");
  PlanReport result = describe_plan(step.trace, plan);
  describe_run(result, *workload, step, shapes);
  add_other_budgets(result, step.trace, settings);
  line.wipe();

  std::cout << to_table(result, stdout_style());
  write_json(options, to_json(result));
  if (const auto path = options.text("--output")) {
    write_file(*path, to_json(workloads::plan_file_of(*workload, step, plan)));
  }
  Report report;
  report.curves = {frontier_curve(result), memory_curve(step.trace, plan)};
  report.notes = result.notes;
  write_reports(options, *workload, report);
  return kOk;
}

}  // namespace

Run add_plan(CLI::App& verb) {
  const auto options = std::make_shared<Options>(verb);
  add_run_options(*options);
  options->add("--budget", "SIZE|P%",
               "what a step may take: all bytes, or a part of the plain peak above base");
  options->add("--output,-o", "FILE", "write the plan, for train --plan");
  add_store_option(*options);
  options->add("--evaluations", "N", "schedules that each search tries, default 30000; 0: none");
  options->add("--steps", "N", "plain steps that are measured, default 5");
  options->add_flag("--max-batch",
                    "instead: the largest batch within --budget, default the machine's memory");
  options->add("--strategies", "S,S,...",
               "of --max-batch, default plain,checkpoint,tape:full,tape:keep_matmuls");
  options->add_flag("--meta",
                    "from shapes alone, without running the model; times by operator rates");
  return [options] { return run(*options); };
}

}  // namespace reprise::command
