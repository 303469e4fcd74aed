// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include <reprise/meter.h>

#include <c10/core/CPUAllocator.h>

#include <benchmark/benchmark.h>

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

BENCHMARK(default_allocator)->Apply(sizes_and_threads);
BENCHMARK(counted_allocator)->Apply(sizes_and_threads);

}  // namespace

BENCHMARK_MAIN();
