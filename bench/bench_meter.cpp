// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <string>
#include <vector>

#include <reprise/meter.h>

#include <c10/core/CPUAllocator.h>

#include <benchmark/benchmark.h>

#include "bench/timing.h"
#include "workloads/measured_step.h"
#include "workloads/workload.h"

// What counting costs: one allocation and its free, through LibTorch's own CPU allocator (default)
// and through the counting allocator that this library has set over it (counted).

namespace {

void allocate_and_free(benchmark::State& state, c10::Allocator* allocator) {
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    c10::DataPtr block = allocator->allocate(bytes);
    benchmark::DoNotOptimize(block.get());
  }
}

void default_allocator(benchmark::State& state) {
  allocate_and_free(state, c10::GetDefaultCPUAllocator());
}

void counted_allocator(benchmark::State& state) {
  if (!reprise::Meter::installed()) {
    state.SkipWithError("the counting allocator is not in place");
    return;
  }
  allocate_and_free(state, c10::GetCPUAllocator());
}

void sizes_and_threads(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(64)->Arg(4 << 10)->Arg(1 << 20)->Threads(1)->Threads(2)->UseRealTime();
}

double microseconds_for(c10::Allocator* allocator, int count) {
  return reprise::microseconds([&] {
    for (int i = 0; i < count; ++i) {
      c10::DataPtr block = allocator->allocate(4 << 10);
      benchmark::DoNotOptimize(block.get());
    }
  });
}

/// A step of a workload: its allocations, times what counting adds to each, as part of its time.
void share_of_step(benchmark::State& state, const std::string& name) {
  const auto workload = reprise::workloads::make_workload(name, {});
  const auto plain = reprise::workloads::parse_strategy("plain");
  const reprise::Meter meter;
  std::vector<double> step_ms, added_us;
  int64_t allocations = 0;
  for (auto _ : state) {
    constexpr int kCount = 20000;
    const double counted = microseconds_for(c10::GetCPUAllocator(), kCount);
    added_us.push_back((counted - microseconds_for(c10::GetDefaultCPUAllocator(), kCount)) /
                       kCount);
    const int64_t before = meter.allocations();
    step_ms.push_back(reprise::workloads::measure_step(*workload, plain, 0).milliseconds);
    allocations = meter.allocations() - before;
  }
  state.counters["allocations"] = static_cast<double>(allocations);
  state.counters["step_ms"] = reprise::median(step_ms);
  state.counters["added_us"] = reprise::median(added_us);
  state.counters["percent_of_step"] =
      static_cast<double>(allocations) * reprise::median(added_us) / 10 / reprise::median(step_ms);
}

BENCHMARK_CAPTURE(share_of_step, digits, std::string("digits"))->Iterations(15);
BENCHMARK_CAPTURE(share_of_step, blocks, std::string("blocks"))->Iterations(15);
BENCHMARK_CAPTURE(share_of_step, gpt, std::string("gpt"))->Iterations(15);
BENCHMARK(default_allocator)->Apply(sizes_and_threads);
BENCHMARK(counted_allocator)->Apply(sizes_and_threads);

}  // namespace

BENCHMARK_MAIN();
