// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reprise/plan.h>

#include <benchmark/benchmark.h>

// How long planning takes, for a language model of so many blocks: the sizes of gpt with width 384,
// batch 8 and context 256, and the times of one measured step.
//   first_plan   what a user waits for, at half of the plain peak
//   chain_alone  the same without search and bound
//   from_known   a short search from the plan for a shorter context
//   with_store   first_plan, with a store that takes all values in four forward passes
//   evaluation   one schedule

namespace {

using reprise::BackwardEvent;
using reprise::StepTrace;

/// Writes a step: operators as they come, then their backward events in reverse.
class Writer {
 public:
  int32_t run(const std::string& name, double us, std::vector<int32_t> reads, int64_t bytes,
              std::vector<int64_t> more = {}) {
    const auto first = static_cast<int32_t>(trace_.values.size());
    more.insert(more.begin(), bytes);
    std::vector<int32_t> makes;
    for (int64_t size : more) {
      makes.push_back(static_cast<int32_t>(trace_.values.size()));
      trace_.values.push_back({size, -1, -1, std::nullopt});
    }
    trace_.operators.push_back({name, us, 0, std::move(reads), makes, true});
    return first;
  }

  /// The operator last written needs these in its backward pass, and makes so much gradient.
  void saves(std::vector<int32_t> values, double us, int64_t gradient, int64_t parameters = 0) {
    const auto at = static_cast<int32_t>(trace_.operators.size()) - 1;
    saved_.push_back({at, std::move(values), us, gradient, parameters});
  }

  StepTrace finish() {
    int64_t parameters = 0, before = 4;
    for (std::size_t i = saved_.size(); i-- > 0;) {
      const Saved& saved = saved_[i];
      BackwardEvent& event = trace_.events.emplace_back();
      event.name = trace_.operators[saved.at].name + "_backward";
      event.microseconds = saved.us;
      event.gradient_bytes_before = before + parameters;
      parameters += saved.parameters;
      event.gradient_bytes = before + saved.gradient + parameters;
      event.belongs_to = saved.at;
      event.unpacks = saved.values;
      before = saved.gradient;
    }
    return std::move(trace_);
  }

 private:
  struct Saved {
    int32_t at;
    std::vector<int32_t> values;
    double us;
    int64_t gradient, parameters;
  };
  StepTrace trace_;
  std::vector<Saved> saved_;
};

StepTrace gpt(int blocks) {
  constexpr int64_t kRow = 8 * 256 * 4, kWide = 384 * kRow, kWeight = 384 * 384 * 4;
  Writer w;
  int32_t x = w.run("embedding", 480, {}, kWide);
  const auto norm = [&](int32_t in) {
    const int32_t out = w.run("native_layer_norm", 370, {in}, kWide, {kRow, kRow});
    w.saves({in, out + 1, out + 2}, 620, 2 * kWide);
    return out;
  };
  const auto linear = [&](int32_t in, double us, int64_t times, int64_t in_times) {
    const int32_t out = w.run("addmm", us, {in}, times * kWide);
    w.saves({in}, 2 * us, in_times * kWide, times * in_times * kWeight);
    return out;
  };
  const auto dropout = [&](int32_t in) {
    const int32_t noise = w.run("bernoulli", 8000, {in}, kWide);
    const int32_t out = w.run("mul", 340, {in, noise}, kWide);
    w.saves({noise}, 380, kWide);
    return out;
  };
  for (int block = 0; block < blocks; ++block) {
    int32_t h = linear(norm(x), 8200, 3, 1);
    const int32_t a = w.run("attention", 6500, {h}, kWide, {49152});
    w.saves({h, a, a + 1}, 13800, 6 * kWide);
    h = dropout(linear(a, 2800, 1, 1));
    x = w.run("add", 350, {x, h}, kWide);
    h = linear(norm(x), 10500, 4, 1);
    const int32_t g = w.run("gelu", 1450, {h}, 4 * kWide);
    w.saves({h}, 2400, 4 * kWide);
    h = dropout(linear(g, 10000, 1, 4));
    x = w.run("add", 350, {x, h}, kWide);
  }
  const int32_t logits = w.run("mm", 12400, {norm(x)}, 2048 * kRow);
  w.saves({logits - 3}, 26000, kWide, 2048 * 384 * 4);
  const int32_t logp = w.run("log_softmax", 3080, {logits}, 2048 * kRow);
  w.saves({logp}, 3670, 2048 * kRow);
  w.run("nll_loss", 80, {logp}, 4, {4});
  w.saves({logp}, 1170, 2048 * kRow);
  return w.finish();
}

int64_t half_of_plain(const StepTrace& trace) {
  return reprise::plan(trace, int64_t{1} << 50).peak_bytes / 2;
}

void plan_with(benchmark::State& state, const StepTrace& trace,
               const reprise::PlanOptions& options) {
  const int64_t budget = half_of_plain(trace);
  reprise::Plan plan;
  for (auto _ : state) plan = reprise::plan(trace, budget, options);
  state.counters["extra_percent"] = 100 * (plan.microseconds / plan.plain_microseconds - 1);
  state.counters["looseness_percent"] = 100 * plan.looseness();
}

void first_plan(benchmark::State& state) {
  plan_with(state, gpt(static_cast<int>(state.range(0))), {});
}

void with_store(benchmark::State& state) {
  StepTrace trace = gpt(static_cast<int>(state.range(0)));
  double bytes = 0, forward = 0;
  for (const reprise::TracedValue& value : trace.values) bytes += static_cast<double>(value.bytes);
  for (const reprise::TracedOperator& op : trace.operators) forward += op.microseconds;
  const double rate = bytes / forward / 4;
  trace.store = {rate, rate, 50, 0};
  plan_with(state, trace, {});
}

void chain_alone(benchmark::State& state) {
  reprise::PlanOptions options;
  options.evaluations = 0;
  options.bound = false;
  plan_with(state, gpt(static_cast<int>(state.range(0))), options);
}

void from_known(benchmark::State& state) {
  const StepTrace trace = gpt(static_cast<int>(state.range(0)));
  StepTrace longer = trace;
  for (reprise::TracedValue& value : longer.values) value.bytes += value.bytes / 4;
  for (BackwardEvent& event : longer.events) {
    event.gradient_bytes += event.gradient_bytes / 4;
    event.gradient_bytes_before += event.gradient_bytes_before / 4;
  }
  const std::vector<reprise::Plan> known{reprise::plan(trace, half_of_plain(trace))};
  const int64_t budget = half_of_plain(longer);
  reprise::PlanOptions options;
  options.evaluations = 2000;
  reprise::Plan plan;
  for (auto _ : state) plan = reprise::plan(longer, budget, options, known);
  state.counters["extra_percent"] = 100 * (plan.microseconds / plan.plain_microseconds - 1);
  state.counters["looseness_percent"] = 100 * plan.looseness();
}

void evaluation(benchmark::State& state) {
  const StepTrace trace = gpt(static_cast<int>(state.range(0)));
  reprise::PlanOptions options;
  options.evaluations = 0;
  const reprise::Plan plan = reprise::plan(trace, half_of_plain(trace), options);
  for (auto _ : state) benchmark::DoNotOptimize(reprise::evaluate(trace, plan.steps));
}

BENCHMARK(first_plan)->Arg(6)->Arg(12)->Arg(48)->Arg(200)->Unit(benchmark::kMillisecond);
BENCHMARK(with_store)->Arg(6)->Arg(12)->Arg(48)->Unit(benchmark::kMillisecond);
BENCHMARK(chain_alone)->Arg(12)->Arg(200)->Unit(benchmark::kMillisecond);
BENCHMARK(from_known)->Arg(12)->Unit(benchmark::kMillisecond);
BENCHMARK(evaluation)->Arg(12)->Arg(200)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
