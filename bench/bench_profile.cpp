// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include <reprise/ledger.h>
#include <reprise/meta_scope.h>
#include <reprise/profile.h>

#include <benchmark/benchmark.h>

#include "bench/timing.h"
#include "workloads/workload.h"

// What looking costs, against a plain step of the same workload in turn within one run: all steps
// of the shortest profile (counter "profile", at most 5 by promise), and one step under a ledger
// ("ledger"). And the time of a profile from shapes alone, of a model that would not fit.

namespace reprise {
namespace {

Profile profile_of(workloads::Workload& workload, const workloads::Batch& batch) {
  const auto plain = workloads::parse_strategy("plain");
  return profile_step(
      ModulePaths(workload.module()), [&] { return workload.run(plain, batch).loss; },
      ProfileOptions().warmup(0).steps(1));
}

void against_a_plain_step(benchmark::State& state, const std::string& name) {
  const auto workload = workloads::make_workload(name, {});
  const auto plain = workloads::parse_strategy("plain");
  const workloads::Batch batch = workload->batch(0);
  const auto step = [&] {
    workload->module().zero_grad();
    workload->run(plain, batch).loss.backward();
  };
  step();
  std::vector<double> profiled, recorded;
  for (auto _ : state) {
    const double alone = microseconds(step);
    profiled.push_back(microseconds([&] { profile_of(*workload, batch); }) / alone);
    recorded.push_back(microseconds([&] {
                         Ledger ledger(LedgerOptions().module(workload->module()));
                         step();
                         benchmark::DoNotOptimize(ledger.stop());
                       }) /
                       alone);
  }
  state.counters["profile"] = median(profiled);
  state.counters["ledger"] = median(recorded);
}

void shapes_alone(benchmark::State& state) {
  workloads::WorkloadOptions options;
  options.layers = 12;
  options.width = 768;
  options.heads = 12;
  options.context = 2048;
  for (auto _ : state) {
    const MetaScope scope;
    const auto workload = workloads::make_workload("gpt", options);
    benchmark::DoNotOptimize(profile_of(*workload, workload->batch(0)));
  }
}

BENCHMARK_CAPTURE(against_a_plain_step, digits, std::string("digits"))->Iterations(15);
BENCHMARK_CAPTURE(against_a_plain_step, blocks, std::string("blocks"))->Iterations(15);
BENCHMARK_CAPTURE(against_a_plain_step, gpt, std::string("gpt"))->Iterations(15);
BENCHMARK(shapes_alone)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace reprise

BENCHMARK_MAIN();
