// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <reprise/scope.h>

#include <torch/torch.h>

#include <benchmark/benchmark.h>

// What recording costs: each operator of a mixed list, on small tensors that require grad, plain
// and under a scope that keeps everything, in turn within one run. The counter "added_us" is the
// median of the differences; time per iteration is that of one recorded and one plain call.

namespace reprise {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

struct Operator {
  std::string name;
  std::function<Tensor(const Tensor&, const Tensor&)> run;
};

const std::vector<Operator>& operators() {
  static const std::vector<Operator> list{
      {"add", [](const Tensor& a, const Tensor& b) { return a + b; }},
      {"addmm", [](const Tensor& a, const Tensor& b) { return at::addmm(a, a, b); }},
      {"view", [](const Tensor& a, const Tensor&) { return a.view({-1}); }},
      {"add_", [](const Tensor& a, const Tensor& b) { return (a * 1).add_(b); }},
      {"layer_norm",
       [](const Tensor& a, const Tensor&) { return at::layer_norm(a, {a.size(-1)}); }},
  };
  return list;
}

double microseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

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
    added.push_back((with - without) / kCalls);
  }
  std::nth_element(added.begin(), added.begin() + added.size() / 2, added.end());
  state.counters["added_us"] = added[added.size() / 2];
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  for (const auto& op : reprise::operators()) {
    benchmark::RegisterBenchmark(("record/" + op.name).c_str(), reprise::record, op)->MinTime(0.5);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
