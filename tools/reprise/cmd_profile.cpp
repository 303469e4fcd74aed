// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>
#include <memory>
#include <optional>

#include <reprise/error.h>
#include <reprise/meta_scope.h>
#include <reprise/profile.h>
#include <reprise/profile_report.h>

#include "commands.h"
#include "options.h"
#include "report_files.h"
#include "terminal.h"
#include "workloads/libtorch.h"
#include "workloads/memory_timeline.h"
#include "workloads/strategy.h"

// reprise profile: where a step's time and memory go, module by module, and what is alive at its
// peak.

namespace reprise::command {
namespace {

using workloads::Workload;

Profile measure(Workload& workload, std::optional<int64_t> steps) {
  const workloads::Strategy plain = workloads::parse_strategy("plain");
  const workloads::Batch batch = workload.batch(0);
  ProfileOptions settings;
  settings.name(workload.name()).device(workload.device());
  settings.steps(steps.value_or(settings.steps()));
  torch::manual_seed(workload.step_seed(0));
  Profile profile = profile_step(
      ModulePaths(workload.module()), [&] { return workload.run(plain, batch).loss; }, settings);
  profile.libtorch = workloads::loaded_libtorch().text();
  return profile;
}

Timeline record(Workload& workload) {
  return workloads::record_step(workload, workloads::parse_strategy("plain"),
                                workloads::StepKind::training);
}

int run(const Options& options) {
  const auto steps = options.whole("--steps");
  if (options.flag("--meta") && steps) {
    throw UsageError("--steps does nothing with --meta", "shapes are looked at once");
  }
  ProfileTableOptions table;
  table.depth = options.whole("--module-depth", 0);
  table.top = options.whole("--top");
  table.saved = options.flag("--saved");
  table.style = stdout_style();
  if (options.flag("--meta")) refuse_recordings(options, "--meta runs nothing");
  std::optional<MetaScope> shapes;
  if (options.flag("--meta")) shapes.emplace();
  const auto workload = make_workload(options);
  const Profile profile = measure(*workload, steps);
  Report report;
  report.profile = profile;
  std::cout << to_table(profile, table);
  if (!shapes && workload->device().is_cpu()) {
    report.timelines = {{"plain", record(*workload)}};
    std::cout << "\na training step with its optimizer: "
              << peak_table(report.timelines[0].timeline, 8, table.style);
  }
  write_json(options, to_json(profile));
  write_reports(options, *workload, report);
  return kOk;
}

}  // namespace

Run add_profile(CLI::App& verb) {
  const auto options = std::make_shared<Options>(verb);
  add_run_options(*options);
  options->add_flag("--saved", "print each tensor that autograd saves, too");
  options->add("--top", "N", "only the N modules that cost most, default the whole tree");
  options->add("--module-depth", "N", "leave out modules deeper in the tree than N");
  options->add("--steps", "N", "measured steps, default 5");
  options->add_flag("--meta", "from shapes alone, without running or allocating; no times");
  return [options] { return run(*options); };
}

}  // namespace reprise::command
