// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <reprise/error.h>
#include <reprise/meta_scope.h>
#include <reprise/meter.h>
#include <reprise/trace_step.h>

#include "meter/process_allocator.h"
#include "profile/operator_rates.h"
#include "profile/step_trace.h"
#include "tape/current.h"
#include "torch/engine.h"
#include "torch/meta_mode.h"
#include "torch/phantom.h"

namespace reprise {
namespace {

/// Takes the record of a step that runs plainly.
class Listener final : public detail::StepGuide {
 public:
  std::shared_ptr<const detail::Schedule> first() override { return nullptr; }
  std::shared_ptr<const detail::Schedule> find(uint64_t) override { return nullptr; }
  void ended(detail::StepRecord record) override { record_ = std::move(record); }
  void ended_unmeasured(bool, int64_t) override {}
  bool measures() override { return true; }

  std::optional<detail::StepRecord> take() { return std::exchange(record_, std::nullopt); }

 private:
  std::optional<detail::StepRecord> record_;
};

/// Keeps everything, as there is room.
class KeepAll final : public detail::Decider {
 public:
  detail::Decision decide(const detail::ValueInfo&) override { return detail::Decision::yield; }
  bool hold(const detail::ValueInfo&) override { return false; }
};

/// Tensors without memory count as if they had some.
class GaugePhantoms final : public detail::PhantomCounter {
 public:
  uint32_t made(int64_t bytes) override { return gauge().add(bytes); }
  void freed(int64_t bytes, uint32_t token) override { gauge().subtract(bytes, token); }

 private:
  static detail::BlockGauge& gauge() { return detail::process_allocator().gauge(); }
};

/// Under a MetaScope time passes by estimates, while this lives.
class Estimates {
 public:
  explicit Estimates(detail::MetaMode& mode) : mode_(mode) {
    static auto& phantoms = *new GaugePhantoms;
    detail::set_phantom_counter(&phantoms);
    const detail::OperatorRates& rates = detail::OperatorRates::of_this_machine();
    mode_.set_watch([this, &rates](const detail::OperatorInfo& op, auto arguments, auto results) {
      now_ += static_cast<int64_t>(1000 * rates.microseconds(op, arguments, results));
    });
  }
  ~Estimates() {
    mode_.set_watch({});
    detail::set_phantom_counter(nullptr);
  }
  Estimates(const Estimates&) = delete;
  Estimates& operator=(const Estimates&) = delete;

  int64_t now() const { return now_; }

 private:
  detail::MetaMode& mode_;
  int64_t now_ = 0;  // nanoseconds
};

using Forward = std::function<at::Tensor()>;

at::Tensor loss_of(const Forward& forward) {
  at::Tensor loss = forward();
  if (loss.defined() && loss.numel() == 1 && loss.requires_grad()) return loss;
  throw UsageError(
      "trace_step: the forward pass returned no loss of one element that requires a gradient",
      "return the loss, for example loss_function(model->forward(x), y)");
}

void begin(const TraceOptions& options) {
  if (options.begin) options.begin();
}

detail::MappedTrace trace_once(const Forward& forward, const TraceOptions& options,
                               detail::StepRecorder::Clock clock) {
  begin(options);
  const auto listener = std::make_shared<Listener>();
  {
    at::Tensor loss;
    {
      const detail::Recording recording(std::make_shared<detail::Tape>(
          std::make_shared<KeepAll>(),
          detail::TapeOptions{.label = "trace_step",
                              .room = std::make_shared<detail::Room>(detail::process_allocator()),
                              .guide = listener,
                              .clock = std::move(clock)}));
      loss = loss_of(forward);
    }
    loss.backward();
  }
  const auto record = listener->take();
  auto mapped = record ? detail::trace_of(*record) : std::nullopt;
  if (mapped) return std::move(*mapped);
  throw Error("trace_step: this step cannot be measured",
              "it must save tensors that operators made, run one backward pass on this thread, and "
              "be the only one that is measured");
}

void run_plainly(const Forward& forward, const TraceOptions& options, TracedStep& result) {
  begin(options);
  const Meter meter;
  const PeakScope scope(meter);
  loss_of(forward).backward();
  result.base_bytes = scope.base();
  result.peak_bytes = scope.peak_above_base();
}

void set_trace(TracedStep& result, detail::MappedTrace mapped) {
  result.trace = mapped.trace;
  result.operators = std::make_shared<const detail::MappedTrace>(std::move(mapped));
}

}  // namespace

TracedStep trace_step(const Forward& forward, const TraceOptions& options) {
  if (options.steps < 1 || options.warmup < 0) {
    throw UsageError(
        "trace_step: one step or more is measured, after none or more for warm-up; got " +
            std::to_string(options.steps) + " and " + std::to_string(options.warmup),
        "the defaults are 5 and 1");
  }
  detail::ensure_engine();
  TracedStep result;
  if (MetaScope::active()) {  // each step would be estimated alike
    const Estimates estimates(*detail::MetaMode::current());
    set_trace(result, trace_once(forward, options, [&] { return estimates.now(); }));
    result.peak_bytes = plan(result.trace, int64_t{1} << 60).plain_peak_bytes;
    return result;
  }
  for (int i = 0; i < options.warmup; ++i) {
    begin(options);
    loss_of(forward).backward();
  }
  run_plainly(forward, options, result);
  std::vector<StepTrace> traces;
  detail::MappedTrace mapped;
  for (int i = 0; i < options.steps; ++i) {
    mapped = trace_once(forward, options, {});
    traces.push_back(mapped.trace);
    if (key_of(traces.back()) == key_of(traces.front())) continue;
    throw Error("trace_step: step " + std::to_string(i + 1) + " ran other operators than the first",
                "measure a step that does the same each time");
  }
  mapped.trace = detail::median_of(traces);
  set_trace(result, std::move(mapped));
  return result;
}

}  // namespace reprise
