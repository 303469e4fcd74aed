// SPDX-License-Identifier: BSD-3-Clause
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <reprise/scope.h>

#include <torch/torch.h>

#include <benchmark/benchmark.h>

#include "bench/timing.h"
#include "workloads/measured_step.h"

// What recording costs: each operator of a mixed list, on small tensors that require grad, plain
// and under a scope that keeps everything, in turn within one run. The counter "added_us" is the
// median of the differences; time per iteration is that of one recorded and one plain call.

namespace reprise {
namespace {

using at::Tensor;

struct Operator {
  std::string name;
  std::function<Tensor(const Tensor&, const Tensor&)> run;
  int calls = 1;  // of operators in one run
};

const std::vector<Operator>& operators() {
  static const std::vector<Operator> list{
      {"add", [](const Tensor& a, const Tensor& b) { return a + b; }},
      {"addmm", [](const Tensor& a, const Tensor& b) { return at::addmm(a, a, b); }},
      {"view", [](const Tensor& a, const Tensor&) { return a.view({-1}); }},
      {"add_", [](const Tensor& a, const Tensor& b) { return (a * 1).add_(b); }, 2},
      {"layer_norm",
       [](const Tensor& a, const Tensor&) { return at::layer_norm(a, {a.size(-1)}); }},
  };
  return list;
}

std::vector<double> medians;  // of the operators so far

void record(benchmark::State& state, const Operator& op) {
  at::set_num_threads(1);
  const Tensor a = at::randn({4, 4}).requires_grad_(), b = at::randn({4, 4}).requires_grad_();
  constexpr int kCalls = 200;
  const Policy policy = Policy::keep_all().audit(false);
  std::vector<double> added;
  for (auto _ : state) {
    std::vector<Tensor> plain(kCalls), recorded(kCalls);
    const double without = microseconds([&] {
      for (Tensor& result : plain) result = op.run(a, b);
    });
    const Scope scope(policy);
    const double with = microseconds([&] {
      for (Tensor& result : recorded) result = op.run(a, b);
    });
    added.push_back((with - without) / (kCalls * op.calls));
  }
  medians.push_back(median(added));
  state.counters["added_us"] = medians.back();
}

/// What recording adds to a training step: all operators of its forward pass, views too, times the
/// median of what the operators above need, against the time of the step.
void step_of_gpt(benchmark::State& state) {
  at::set_num_threads(2);
  workloads::WorkloadOptions options;
  options.layers = 6, options.width = 384, options.heads = 6, options.batch = 8;
  options.context = 256;
  const auto gpt = workloads::make_workload("gpt", options);
  const workloads::Strategy plain = workloads::parse_strategy("plain");
  double operators = 0;
  {
    Scope scope(Policy::keep_all().audit(false), ScopeOptions().measure(true));
    gpt->forward(plain, gpt->batch(0));
    scope.end();
    for (const ModuleCost& cost : scope.summary().modules) {
      operators += static_cast<double>(cost.operators);
    }
  }
  std::vector<double> steps;
  for (auto _ : state) {
    steps.push_back(workloads::measure_step(*gpt, plain, 0).milliseconds);
  }
  const double added_ms = operators * median(medians) / 1000;
  state.counters["operators"] = operators;
  state.counters["added_ms"] = added_ms;
  state.counters["step_ms"] = median(steps);
  state.counters["share_percent"] = 100 * added_ms / median(steps);
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  for (const auto& op : reprise::operators()) {
    benchmark::RegisterBenchmark(("record/" + op.name).c_str(), reprise::record, op)->MinTime(0.5);
  }
  benchmark::RegisterBenchmark("record/step_of_gpt", reprise::step_of_gpt)
      ->Iterations(5)
      ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
