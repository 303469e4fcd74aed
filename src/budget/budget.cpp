// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include <reprise/budget.h>
#include <reprise/hooks.h>
#include <reprise/meter.h>

#include "budget/limits.h"
#include "budget/room.h"
#include "budget/step_plans.h"
#include "meter/process_allocator.h"
#include "tape/current.h"
#include "tape/decider.h"
#include "tape/saved_value.h"
#include "torch/engine.h"
#include "torch/warning.h"

namespace reprise {
namespace {

using detail::Limits;
using detail::LimitState;

void check_bytes(int64_t bytes) {
  if (bytes > 0) return;
  throw UsageError("Budget: a budget of " + std::to_string(bytes) + " bytes",
                   "give it one byte or more, such as 512_MiB");
}

void when_a_pass_ends(bool failed, bool last) {
  Limits::for_each([&](Limits& limits) {
    if (failed && limits.in_force()) detail::clear_failed_passes();
    if (last) limits.end_passes();
  });
}

}  // namespace

struct Budget::State {
  /// Of one step; null if there is no store.
  std::shared_ptr<detail::Offloads> offloads() const {
    const std::lock_guard<std::mutex> lock(store_mutex);
    if (!store) return nullptr;
    return std::make_shared<detail::Offloads>(
        detail::Destination{*store,
                            OffloadOptions().min_bytes(0).on_failure(StoreFailure::recompute)},
        nullptr);
  }

  mutable std::mutex store_mutex;
  std::optional<Store> store;

  /// Throws UsageError for a device that cannot be measured.
  explicit State(c10::Device where)
      : device(Meter(where).device()), limit(detail::limited_memory(device)) {
    limit.last_step = [this] { return plans->trace(); };
  }

  Limits& limits() const { return Limits::of(limit.memory); }

  const c10::Device device;  // with its index
  LimitState limit;
  const std::shared_ptr<detail::StepPlans> plans =
      std::make_shared<detail::StepPlans>(/*sparing=*/!device.is_cpu());
};

namespace {

/// The graph of one forward pass: what keeps saved tensors keeps it.
class Graph {
 public:
  Graph(std::shared_ptr<void> owner, LimitState& limit, std::vector<std::shared_ptr<Graph>> around)
      : owner_(std::move(owner)), limit_(limit), around_(std::move(around)) {
    begun_ = Limits::of(limit_.memory).begin_forward(limit_);
  }
  ~Graph() { Limits::of(limit_.memory).end_graph(limit_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const Limits::Begun& begun() const { return begun_; }

 private:
  const std::shared_ptr<void> owner_;
  LimitState& limit_;
  const std::vector<std::shared_ptr<Graph>> around_;  // forward passes that this one is in
  Limits::Begun begun_;
};

/// Whatever is saved on the device yields.
class Yielding final : public detail::Decider {
 public:
  Yielding(std::shared_ptr<Graph> graph, c10::Device device)
      : graph_(std::move(graph)), device_(device) {}

  detail::Decision decide(const detail::ValueInfo& value) override {
    return value.tensor.device() == device_ ? detail::Decision::yield : detail::Decision::keep;
  }
  bool hold(const detail::ValueInfo&) override { return false; }

 private:
  const std::shared_ptr<Graph> graph_;
  const c10::Device device_;
};

/// A tensor as autograd keeps it, for the plain step.
class Watched final : public detail::PackedTensor {
 public:
  Watched(const at::Tensor& tensor, std::shared_ptr<Graph> graph)
      : graph_(std::move(graph)), value_(tensor) {}
  at::Tensor unpack() override { return value_.unpack(); }

 private:
  const std::shared_ptr<Graph> graph_;
  detail::SavedValue value_;
};

struct OpenForward {
  const LimitState* limit;
  std::shared_ptr<Graph> graph;
};

/// Of this thread, outermost first.
std::vector<OpenForward>& open_forwards() {
  thread_local std::vector<OpenForward> open;
  return open;
}

bool is_open(const LimitState& limit) {
  for (const OpenForward& open : open_forwards()) {
    if (open.limit == &limit) return true;
  }
  return false;
}

/// Of a budget that is there.
template <class State>
State& alive(const std::shared_ptr<State>& state) {
  if (state) return *state;
  throw UsageError("a Budget that was moved from", "use the one that it was moved to");
}

/// What is live already may be too much.
void make_it_fit(detail::LimitedMemory& memory) {
  int64_t droppable = 0;
  if (detail::drop_for(memory, 0, droppable)) return memory.cancel(0);
  const int64_t pinned = memory.live() - droppable;
  const int64_t limit = memory.limit();
  throw BudgetInfeasible(
      "a budget of " + detail::text_of_bytes(limit) + " is too small: " +
          detail::text_of_bytes(pinned) + " are live before the forward pass begins",
      "the budget counts parameters, gradients, optimizer and data too: give it more, or say what "
      "activations may take with Budget::activations()",
      limit, pinned, "");
}

}  // namespace

struct BudgetScope::Open {
  explicit Open(const std::shared_ptr<Budget::State>& state) {
    LimitState& limit = state->limit;
    std::vector<std::shared_ptr<Graph>> around;
    for (const OpenForward& open : open_forwards()) around.push_back(open.graph);
    auto graph = std::make_shared<Graph>(state, limit, std::move(around));
    make_it_fit(limit.memory);
    if (graph->begun().plainly) {
      hooks.emplace(
          [graph](const at::Tensor& tensor) { return std::make_shared<Watched>(tensor, graph); });
    } else {
      recording.emplace(
          std::make_shared<detail::Tape>(std::make_shared<Yielding>(graph, state->device),
                                         detail::TapeOptions{.label = "budget",
                                                             .room = limit.room,
                                                             .guide = guide(state, graph->begun()),
                                                             .offloads = state->offloads()}));
    }
    open_forwards().push_back({&limit, std::move(graph)});
  }
  ~Open() { open_forwards().pop_back(); }

  // One forward pass is planned for at a time: of several, the others have what it leaves.
  static std::shared_ptr<detail::StepGuide> guide(const std::shared_ptr<Budget::State>& state,
                                                  const Limits::Begun& begun) {
    if (!begun.alone || !open_forwards().empty()) return nullptr;
    return state->plans->guide(begun.available,
                               [state] { return state->limits().peak_of_step(state->limit); });
  }

  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  const std::thread::id thread = std::this_thread::get_id();
  std::optional<detail::HookScope> hooks;
  std::optional<detail::Recording> recording;
};

BudgetScope::BudgetScope(Budget& budget) {
  if (is_open(alive(budget.state_).limit)) return;
  detail::ensure_engine();
  open_ = std::make_unique<Open>(budget.state_);
}

BudgetScope::~BudgetScope() {
  if (!open_ || open_->thread == std::this_thread::get_id()) return;
  // Taking another thread's hooks off this one would crash: better one that records for ever.
  detail::warn(
      "reprise: a budget scope was destroyed on another thread than the one that it records");
  (void)open_.release();
}

Budget::Budget(std::shared_ptr<State> state) : state_(std::move(state)) {
  detail::install_room_maker(state_->limit.memory);
  detail::when_passes_end(when_a_pass_ends);
  state_->limit.overruns_before = state_->limit.memory.overruns();
}

Budget::Budget(int64_t bytes, c10::Device device) : Budget(std::make_shared<State>(device)) {
  check_bytes(bytes);
  state_->limit.bytes = bytes;
}

Budget Budget::activations(int64_t bytes, c10::Device device) {
  Budget budget(bytes, device);
  budget.state_->limit.kind = LimitState::Kind::above_base;
  return budget;
}

Budget Budget::fraction(double fraction, c10::Device device) {
  if (!(fraction > 0 && fraction <= 1)) {
    std::ostringstream text;
    text << "Budget::fraction(" << fraction << ")";
    throw UsageError(text.str(), "give it a part of the plain peak: above 0, and at most 1");
  }
  Budget budget(1, device);
  budget.state_->limit.kind = LimitState::Kind::share;
  budget.state_->limit.bytes = 0;
  budget.state_->limit.share = fraction;
  return budget;
}

Budget::Budget(Budget&&) noexcept = default;

Budget& Budget::operator=(Budget&& other) noexcept {
  if (this == &other) return *this;
  if (state_) state_->limits().retire(state_->limit);
  state_ = std::move(other.state_);
  return *this;
}

Budget::~Budget() {
  if (state_) state_->limits().retire(state_->limit);
}

int64_t Budget::infeasible_so_far() { return detail::last_infeasible().count; }

// Whoever makes another exception of ours quotes it.
void Budget::rethrow_if_infeasible(int64_t before, const std::exception& error) {
  const detail::LastInfeasible& last = detail::last_infeasible();
  if (last.count == before || dynamic_cast<const BudgetInfeasible*>(&error) != nullptr) return;
  const std::string ours = last.error.what();
  const std::string quoted = ours.substr(0, ours.find('\n'));
  if (std::string(error.what()).find(quoted) != std::string::npos) {
    throw BudgetInfeasible(last.error);
  }
}

BudgetSummary Budget::summary() const {
  const LimitState state = alive(state_).limits().read(state_->limit);
  const detail::Room& counts = *state.room;
  BudgetSummary summary;
  summary.limit = state.bytes;
  summary.base = state.base;
  summary.peak = state.peak;
  summary.plain_peak = state.plain_peak;
  summary.forwards = state.forwards;
  summary.drops = counts.drops;
  summary.dropped_bytes = counts.dropped_bytes;
  summary.replays = counts.replays;
  summary.operators = counts.operators;
  summary.replay_ms = static_cast<double>(counts.nanoseconds) * 1e-6;
  summary.offloaded_bytes = counts.sent_bytes;
  summary.fetched_bytes = counts.fetched_bytes;
  summary.overruns = state.memory.overruns() - state.overruns_before;
  state_->plans->summarise(summary);
  return summary;
}

void Budget::stay_online() { alive(state_).plans->stop(); }

void Budget::plan_with(const PlanOptions& options) { alive(state_).plans->plan_with(options); }

void Budget::follow(Plan plan) { alive(state_).plans->offer(std::move(plan)); }

void Budget::follow(const TracedStep& step, Plan plan) {
  if (!step.operators || plan.key != key_of(step.trace)) {
    throw UsageError("Budget::follow(): the plan is not of this step",
                     "give it what trace_step() returned, and a plan of its trace");
  }
  detail::MappedTrace mapped = *step.operators;
  mapped.trace.store = step.trace.store;
  alive(state_).plans->follow(std::move(mapped), std::move(plan));
}

void Budget::into(const Store& store) {
  if (!alive(state_).device.is_cpu()) {
    throw UsageError("Budget::into() for a budget of " + state_->device.str(),
                     "what a budget sends is the CPU's: use Policy::offload() on an accelerator");
  }
  if (store.lossy()) {
    throw UsageError("Budget::into() with a store that rounds", "a budget keeps every bit");
  }
  {
    const std::lock_guard<std::mutex> lock(state_->store_mutex);
    state_->store = store;
  }
  state_->plans->into(store);
}

void Budget::finish_planning() { alive(state_).plans->finish(); }

std::optional<StepTrace> Budget::trace() const { return alive(state_).plans->trace(); }

std::optional<Plan> Budget::followed() const { return alive(state_).plans->followed(); }

std::ostream& operator<<(std::ostream& out, const BudgetSummary& summary) {
  using detail::text_of_bytes;
  out << "limit " << text_of_bytes(summary.limit);
  if (summary.base > 0) out << " above a base of " << text_of_bytes(summary.base);
  if (summary.plain_peak > 0) out << ", plain " << text_of_bytes(summary.plain_peak);
  out << "\npeak  " << text_of_bytes(summary.peak) << "\n"
      << summary.forwards << " forward passes, " << summary.drops << " drops of "
      << text_of_bytes(summary.dropped_bytes) << ", " << summary.replays << " replays of "
      << summary.operators << " operators in " << summary.replay_ms << " ms";
  if (summary.offloaded_bytes > 0) {
    out << ", " << text_of_bytes(summary.offloaded_bytes) << " sent to the store, "
        << text_of_bytes(summary.fetched_bytes) << " fetched";
  }
  if (summary.overruns > 0) out << ", " << summary.overruns << " allocations above the limit";
  out << "\n"
      << summary.planned_steps << " planned steps, " << summary.online_steps << " online; "
      << summary.plans << " plans made, " << summary.replans << " of them to replace another";
  if (summary.planned_steps > 0) {
    out << "\nlast planned step: peak " << text_of_bytes(summary.measured_peak) << ", predicted "
        << text_of_bytes(summary.predicted_peak) << ", plain " << text_of_bytes(summary.plain_bytes)
        << "; " << summary.measured_ms << " ms, predicted " << summary.predicted_ms << ", bound "
        << summary.bound_ms << ", plain " << summary.plain_ms;
  }
  return out << "\n";
}

}  // namespace reprise
