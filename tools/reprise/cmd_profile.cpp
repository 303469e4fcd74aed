// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>
#include <memory>
#include <optional>

#include <reprise/error.h>
#include <reprise/ledger.h>
#include <reprise/meta_scope.h>
#include <reprise/profile.h>
#include <reprise/profile_report.h>

#include "commands.h"
#include "options.h"
#include "workloads/libtorch.h"
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

void train(Workload& workload, torch::optim::Optimizer& optimizer, int64_t step, Ledger* ledger) {
  const auto mark = [ledger](const char* name) {
    if (ledger != nullptr) ledger->mark(name);
  };
  mark("data");
  const workloads::Batch batch = workload.batch(step);
  mark("forward");
  optimizer.zero_grad();
  const torch::Tensor loss = workload.run(workloads::parse_strategy("plain"), batch).loss;
  mark("backward");
  loss.backward();
  mark("optimizer");
  optimizer.step();
}

/// A training step with its optimizer, whose state is there: the second one.
Timeline record(Workload& workload) {
  const auto optimizer = workload.make_optimizer();
  train(workload, *optimizer, 0, nullptr);
  optimizer->zero_grad();
  Ledger ledger(LedgerOptions().module(workload.module()).optimizer(*optimizer));
  train(workload, *optimizer, 1, &ledger);
  return ledger.stop();
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
  std::optional<MetaScope> shapes;
  if (options.flag("--meta")) shapes.emplace();
  const auto workload = make_workload(options);
  const Profile profile = measure(*workload, steps);
  std::cout << to_table(profile, table);
  if (!shapes && workload->device().is_cpu()) {
    std::cout << "\na training step with its optimizer: " << peak_table(record(*workload));
  }
  write_json(options, to_json(profile));
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
