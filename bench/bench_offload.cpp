// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <reprise/meter.h>
#include <reprise/offload.h>
#include <reprise/scope.h>

#include <torch/torch.h>

#include <benchmark/benchmark.h>

#include "bench/timing.h"
#include "workloads/strategy.h"
#include "workloads/transformer.h"

// Steps of a transformer of four blocks on one thread whose saved tensors go to a disk and come
// back, against the same steps with a copy in memory in the place of each transfer (a HostStore),
// and against plain ones; turn and turn about in one run. The folder is REPRISE_BENCH_FOLDER, or
// that for temporary files. How fast the store is by itself: bench_store.
//   plain_ms, copy_ms, disk_ms   medians
//   over_copy    median of the pairs' ratios, in percent above 100: at most 10 is the aim
//   over_plain   the same against plain
//   moved_MiB    in a step
//   waited_ms    in a step, both passes
//   peak_part    of plain's peak, in percent

namespace {

using namespace reprise;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 15, kWarm = 3;
constexpr int64_t kBatch = 8, kLength = 256, kWidth = 384;

struct Model {
  std::shared_ptr<workloads::TransformerStack> blocks =
      std::make_shared<workloads::TransformerStack>(
          workloads::TransformerSizes{4, kWidth, 6, 0.1, workloads::NormPlace::first});
  workloads::Strategy plain = workloads::parse_strategy("plain");
  at::Tensor input = at::randn({kBatch, kLength, kWidth});
};

struct Measured {
  std::vector<double> times;
  int64_t peak = 0;
  OffloadSummary offload;
};

void step(const Model& model, const Policy* policy, Measured& measured, bool counts) {
  for (at::Tensor& parameter : model.blocks->parameters()) parameter.mutable_grad() = at::Tensor();
  const PeakScope peak;
  const auto start = Clock::now();
  std::unique_ptr<Scope> scope;
  if (policy != nullptr) scope = std::make_unique<Scope>(*policy);
  const at::Tensor loss = model.blocks->forward(model.plain, model.input).square().mean();
  if (scope) scope->end();
  loss.backward();
  if (counts) {
    measured.times.push_back(
        std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  measured.peak = std::max(measured.peak, peak.peak_above_base());
  if (scope) measured.offload = scope->summary().offload;
}

double over(const Measured& one, const Measured& other) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < one.times.size(); ++i) {
    ratios.push_back(one.times[i] / other.times[i]);
  }
  return 100 * (median(ratios) - 1);
}

void steps(benchmark::State& state) {
  const char* folder = std::getenv("REPRISE_BENCH_FOLDER");
  const DiskStore disk(folder != nullptr ? folder
                                         : std::filesystem::temp_directory_path().string());
  HostOptions in_memory;
  in_memory.allocate = [](int64_t bytes) {  // a copy is what is wanted here
    return std::shared_ptr<void>(std::aligned_alloc(64, static_cast<std::size_t>(bytes)),
                                 &std::free);
  };
  const HostStore host(int64_t{1} << 30, in_memory);
  for (auto _ : state) {
    torch::manual_seed(1);
    torch::set_num_threads(1);  // the other core is for the transfers
    const Model model;
    const Policy to_disk = Policy::offload(disk), to_host = Policy::offload(host);
    Measured plain, copied, sent;
    for (int round = 0; round < kWarm + kRounds; ++round) {
      const bool counts = round >= kWarm;
      step(model, nullptr, plain, counts);
      step(model, &to_host, copied, counts);
      step(model, &to_disk, sent, counts);
    }
    constexpr double kMiB = 1 << 20;
    state.counters["plain_ms"] = median(plain.times);
    state.counters["copy_ms"] = median(copied.times);
    state.counters["disk_ms"] = median(sent.times);
    state.counters["over_copy"] = over(sent, copied);
    state.counters["over_plain"] = over(sent, plain);
    state.counters["moved_MiB"] = static_cast<double>(sent.offload.moved_bytes) / kMiB;
    state.counters["waited_ms"] = sent.offload.forward_wait_ms + sent.offload.backward_wait_ms;
    state.counters["peak_part"] =
        100 * static_cast<double>(sent.peak) / static_cast<double>(plain.peak);
    state.SetLabel(disk.stats().path);
  }
}
BENCHMARK(steps)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
