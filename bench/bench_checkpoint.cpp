// SPDX-License-Identifier: BSD-3-Clause
#include <functional>
#include <string>
#include <vector>

#include <reprise/checkpoint.h>

#include <torch/torch.h>

#include <benchmark/benchmark.h>

#include "bench/timing.h"

// What a checkpointed region costs beyond the work itself: forward, replay and backward of a
// region, less two forward runs and one backward pass of the plain function, in turn within one
// run. The function saves `n` small tensors. The counter "added_us" is the median of the
// differences, and "per_tensor_us" the growth from a region of one tensor on.

namespace reprise {
namespace {

using at::Tensor;

double of_one = 0;  // added by a region that saves one tensor

void region(benchmark::State& state, int64_t n, const CheckpointOptions& options) {
  at::set_num_threads(1);
  // The result of an operator, as the argument of most regions is.
  const Tensor x = at::randn({4, 4}).requires_grad_() * 2, ones = at::ones({4, 4});
  const auto chain = [n](Tensor t) {
    for (int64_t i = 0; i < n; ++i) t = t.sin();
    return t;
  };
  const auto backward = [&](const Tensor& y) {
    benchmark::DoNotOptimize(torch::autograd::grad({y}, {x}, {ones}));
  };
  constexpr int kRepeats = 20;
  std::vector<double> added;
  for (auto _ : state) {
    const double plain = microseconds([&] {
      for (int i = 0; i < kRepeats; ++i) {
        benchmark::DoNotOptimize(chain(x));
        backward(chain(x));
      }
    });
    const double ours = microseconds([&] {
      for (int i = 0; i < kRepeats; ++i) backward(checkpoint(options, chain, x));
    });
    added.push_back((ours - plain) / kRepeats);
  }
  const double all = median(added);
  if (n == 1) of_one = all;
  state.counters["added_us"] = all;
  if (n > 1) state.counters["per_tensor_us"] = (all - of_one) / static_cast<double>(n - 1);
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  using reprise::CheckpointOptions;
  const auto add = [](const std::string& name, const CheckpointOptions& options) {
    for (const int64_t n : {1, 32, 256}) {
      benchmark::RegisterBenchmark((name + "/" + std::to_string(n)).c_str(), reprise::region, n,
                                   options)
          ->MinTime(0.5);
    }
  };
  add("functions", CheckpointOptions());
  add("functions_without_rng", CheckpointOptions().preserve_rng(false));
  add("operators", CheckpointOptions()
                       .replay(reprise::Replay::operators)
                       .policy(reprise::Policy::recompute_all().audit(false)));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
