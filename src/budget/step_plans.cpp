// SPDX-License-Identifier: BSD-3-Clause
#include "budget/step_plans.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>
#include <utility>

#include <sys/resource.h>

#include "budget/forward_guide.h"

namespace reprise::detail {
namespace {

constexpr std::size_t kMostSequences = 64;
constexpr std::size_t kMostMeasured = 5;
constexpr std::size_t kWarmSteps = 3;
constexpr int kQuickEvaluations = 2000;
constexpr int kMostReplans = 6;
constexpr int kSettled = 16;      // steps after which a plan is looked at only now and then
constexpr int kLookClosely = 4;   // steps, so that steps that take turns are all seen
constexpr int64_t kMuchLess = 8;  // a part of the gradients
constexpr double kTimeTolerance = 0.10;
constexpr double kMoreRoom = 1.02;  // worth another plan
constexpr double kLeastLeft = 0.5;  // of a step's time, without what transfers are said to take

/// As a part of the plain step, by the measurement that the plan was made from.
double bound_ratio(const Plan& plan) {
  if (plan.plain_microseconds <= 0) return 1;
  return plan.bound_microseconds / plan.plain_microseconds;
}

/// None where a schedule is no schedule any more: the program holds other values than it did.
std::optional<Plan> judged_by(const StepTrace& trace, const Plan& plan) {
  try {
    return rejudged(trace, plan);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// Takes out of a step's times what the transfers of its plan took from it: plans add their own.
void take_out_transfers(StepTrace& trace, const Plan& followed,
                        const std::optional<TracedStore>& store) {
  if (!store || followed.decisions.size() != trace.values.size()) return;
  int64_t moved = 0;
  for (const PlanStep& step : followed.steps) {
    const bool moves = step.kind == PlanStep::Kind::send || step.kind == PlanStep::Kind::fetch;
    if (moves) moved += trace.values[static_cast<std::size_t>(step.index)].bytes;
  }
  double time = 0;
  for (const TracedOperator& op : trace.operators) time += op.microseconds;
  for (const BackwardEvent& event : trace.events) time += event.microseconds;
  if (moved == 0 || time <= 0) return;
  const double work = static_cast<double>(moved) * store->work_us_per_byte;
  const double left = std::max(kLeastLeft, 1 - work / time);
  for (TracedOperator& op : trace.operators) op.microseconds *= left;
  for (BackwardEvent& event : trace.events) event.microseconds *= left;
}

/// Planning goes on beside the training; where both want a core, training goes first.
void stand_back() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10); }

}  // namespace

StepPlans::~StepPlans() = default;  // the worker is told to stop, and waited for

std::shared_ptr<StepGuide> StepPlans::guide(int64_t available,
                                            std::function<int64_t()> peak_of_step) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) {
      ++counts_.online_steps;
      return nullptr;
    }
  }
  return std::make_shared<ForwardGuide>(shared_from_this(), available, std::move(peak_of_step));
}

void StepPlans::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
}

void StepPlans::plan_with(const PlanOptions& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  options_ = options;
}

void StepPlans::offer(Plan plan) {
  const std::lock_guard<std::mutex> lock(mutex_);
  offered_.push_back(std::move(plan));
}

void StepPlans::follow(MappedTrace step, Plan plan) {
  check_plan(step.trace, plan);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (plan.sends() && !store_) {
    throw UsageError("Budget::follow(): the plan sends values to a store, and there is none",
                     "give the budget one first, with Budget::into()");
  }
  const bool knew_store = step.trace.store.has_value();
  adopt(*sequence_of(std::move(step)), std::move(plan), knew_store);
}

void StepPlans::into(const Store& store) {
  const std::lock_guard<std::mutex> lock(mutex_);
  store_ = std::make_shared<StoreSpeed>(store);
  // Whatever was found without it can be better now.
  for (const auto& sequence : sequences_) sequence->infeasible_at = sequence->replans = 0;
}

void StepPlans::finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

std::optional<StepTrace> StepPlans::trace() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return trace_;
}

std::optional<Plan> StepPlans::followed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return followed_ ? std::optional<Plan>(*followed_) : std::nullopt;
}

void StepPlans::summarise(BudgetSummary& summary) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  summary.online_steps = counts_.online_steps;
  summary.planned_steps = counts_.planned_steps;
  summary.plans = counts_.plans;
  summary.replans = counts_.replans;
  summary.predicted_peak = counts_.predicted_peak;
  summary.measured_peak = counts_.measured_peak;
  summary.predicted_ms = counts_.predicted_ms;
  summary.measured_ms = counts_.measured_ms;
  summary.bound_ms = counts_.bound_ms;
  summary.plain_ms = counts_.plain_ms;
  summary.plain_bytes = counts_.plain_bytes;
}

// --- which plan to follow ---

// Of several that fit, the plan that uses most: it is for a step like this one.
StepPlans::Found StepPlans::best(uint64_t hash, int64_t available) const {
  Found best;
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    const auto sequence = entry->second.lock();
    if (!sequence || !sequence->found.plan) continue;
    const int64_t peak = sequence->found.plan->peak_bytes;
    if (peak > available || (best.plan && peak <= best.plan->peak_bytes)) continue;
    best = sequence->found;
    best.sequence = sequence;
  }
  return best;
}

// That of the last step; if the steps turn out to differ, find() has another one.
StepPlans::Found StepPlans::first(int64_t available) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sequences_.empty() || sequences_.front()->mapped.hashes.empty()) return {};
  return best(sequences_.front()->mapped.hashes.back(), available);
}

StepPlans::Found StepPlans::find(uint64_t hash, int64_t available) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return best(hash, available);
}

std::shared_ptr<StepPlans::Sequence> StepPlans::sequence_of(MappedTrace mapped) {
  const std::string key = key_of(mapped.trace);
  // Where gradients are accumulated, the first part of a step makes them, and the others do not.
  const auto& events = mapped.trace.events;
  const int64_t gradients = events.empty() ? 0 : events.back().gradient_bytes;
  const auto found = std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& sequence) {
    return sequence->key == key && sequence->mapped.hashes == mapped.hashes &&
           std::abs(sequence->gradients - gradients) <= gradients / kMuchLess;
  });
  if (found != sequences_.end()) {
    sequences_.splice(sequences_.begin(), sequences_, found);
    return sequences_.front();
  }
  auto sequence = std::make_shared<Sequence>();
  sequence->key = key;
  sequence->gradients = gradients;
  sequence->mapped = std::move(mapped);
  for (const uint64_t hash : sequence->mapped.hashes) by_hash_.emplace(hash, sequence);
  sequences_.push_front(std::move(sequence));
  if (sequences_.size() > kMostSequences) forget_oldest();
  return sequences_.front();
}

void StepPlans::forget_oldest() {
  sequences_.pop_back();
  std::erase_if(by_hash_, [](const auto& entry) { return entry.second.expired(); });
}

// --- what steps have shown ---

/// Where that is dear: what is not known well yet, what turned out otherwise, and now and then.
bool StepPlans::measures() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!sparing_) return true;
  if (look_closely_ > 0) {
    --look_closely_;
  } else if (!sequences_.empty() && sequences_.front()->found.plan &&
             sequences_.front()->measured.size() == kMostMeasured && ++unmeasured_ < kSettled) {
    return false;
  }
  unmeasured_ = 0;
  return true;
}

void StepPlans::count(const EndedStep& step, const Found& followed) {
  ++(followed.plan ? counts_.planned_steps : counts_.online_steps);
  followed_ = followed.plan;
  if (!followed.plan) return;
  const Plan& plan = *followed.plan;
  counts_.predicted_peak = plan.peak_bytes;
  counts_.predicted_ms = plan.microseconds / 1000;
  counts_.plain_ms = plan.plain_microseconds / 1000;
  counts_.plain_bytes = plan.plain_peak_bytes;
  counts_.bound_ms = std::min(counts_.predicted_ms, counts_.plain_ms * bound_ratio(*followed.made));
  counts_.measured_peak = step.peak;
}

void StepPlans::ended_unmeasured(const EndedStep& step, const Found& followed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  count(step, followed);
  if (!followed.plan || step.drops > 0) look_closely_ = kLookClosely;
}

void StepPlans::ended(const StepRecord& record, const EndedStep& step, const Found& followed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  count(step, followed);
  if (followed.plan) counts_.measured_ms = static_cast<double>(record.step_time) / 1e6;
  // A plan that has stood for a while is looked at only now and then.
  const auto known = followed.sequence.lock();
  if (known && !sparing_ && record.drops == 0 && known->steps_since_plan >= kSettled &&
      ++known->steps_since_plan % kSettled != 0) {
    return;
  }
  std::optional<MappedTrace> mapped = trace_of(record);
  if (!mapped) return;
  // Plans that send cannot be judged before the store has been measured.
  const std::optional<TracedStore> store = speed_of_store(
      (followed.plan && followed.plan->sends()) ||
      std::any_of(offered_.begin(), offered_.end(), [](const Plan& plan) { return plan.sends(); }));
  if (record.followed && followed.plan) take_out_transfers(mapped->trace, *followed.plan, store);
  const StepTrace measured = mapped->trace;
  const auto sequence = sequence_of(std::move(*mapped));
  // The first measurement is of a cold step, and goes as soon as there is another one.
  auto& steps = sequence->measured;
  if (steps.size() == kMostMeasured ||
      (steps.size() == 1 && !std::exchange(sequence->warm, true))) {
    steps.erase(steps.begin());
  }
  steps.push_back(measured);
  consider(sequence, record, step, store);
}

std::optional<TracedStore> StepPlans::speed_of_store(bool needed) {
  if (!store_) return std::nullopt;
  return needed ? store_->measured() : store_->known();
}

void StepPlans::consider(const std::shared_ptr<Sequence>& sequence, const StepRecord& record,
                         const EndedStep& step, const std::optional<TracedStore>& store) {
  // Smaller forms are tried in steps without a plan only.
  StepTrace trace = median_of(sequence->measured);
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    auto& known = sequence->mapped.trace.values[v].encoded;
    if (trace.values[v].encoded) known = trace.values[v].encoded;
    trace.values[v].encoded = known;
  }
  trace.store = store;
  sequence->mapped.trace = trace;
  trace_ = trace;
  if (sequence->planning || stopped_) return;
  if (!sequence->found.plan) {
    for (const Plan& plan : offered_) {
      if (plan.key != sequence->key) continue;
      std::optional<Plan> judged = judged_by(trace, plan);
      if (judged && judged->peak_bytes <= step.available) {
        return adopt(*sequence, plan, plan.sends());
      }
    }
    if (step.available > sequence->infeasible_at) begin_planning(sequence, step.available);
    return;
  }
  const Plan& plan = *sequence->found.plan;
  std::optional<Plan> judged = judged_by(trace, plan);
  const bool dropped = record.followed && record.drops > 0;
  const bool too_much = !judged || judged->peak_bytes > step.available || dropped;
  // Once warm steps have been measured: the first plan is made from a cold one.
  const double made = sequence->found.made->microseconds;
  const bool slower = judged && sequence->measured.size() >= kWarmSteps &&
                      std::abs(judged->microseconds - made) > kTimeTolerance * made;
  const bool other_store = trace.store.has_value() && !sequence->found.knew_store;
  const bool more_room = static_cast<double>(step.available - sequence->margin) >
                         kMoreRoom * static_cast<double>(plan.budget_bytes);
  const bool is_plain = plan.peak_bytes == plan.plain_peak_bytes;
  if (record.followed) ++sequence->steps_since_plan;
  if (dropped) sequence->margin += std::max<int64_t>(step.available / 256, 1 << 16);
  if ((too_much || ((slower || more_room || other_store) && !is_plain)) &&
      sequence->replans < kMostReplans) {
    ++sequence->replans;
    begin_planning(sequence, step.available);
  }
  if (!too_much) sequence->found.plan = std::make_shared<const Plan>(std::move(*judged));
}

void StepPlans::adopt(Sequence& sequence, Plan plan, bool knew_store) {
  sequence.found.schedule = schedule_of(plan, sequence.mapped);
  sequence.found.knew_store = knew_store;
  sequence.found.made = std::make_shared<const Plan>(std::move(plan));
  sequence.found.plan = sequence.found.made;
  sequence.steps_since_plan = 0;
}

// --- planning, in a thread of its own ---

void StepPlans::begin_planning(const std::shared_ptr<Sequence>& sequence, int64_t available) {
  const int64_t budget = available - sequence->margin;
  if (budget < 1) return;
  std::vector<Plan> known;
  if (sequence->found.plan) known.push_back(*sequence->found.plan);
  // Steps of the same operators at other sizes are planned for alike.
  for (const auto& other : sequences_) {
    if (other == sequence || !other->found.plan || known.size() > 2) continue;
    if (other->mapped.operators == sequence->mapped.operators &&
        other->mapped.values == sequence->mapped.values) {
      known.push_back(*other->found.plan);
    }
  }
  sequence->planning = true;
  jobs_.push_front({sequence, sequence->mapped.trace, budget, std::move(known), /*quick=*/true});
  if (!worker_.joinable()) {
    worker_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
  wake_.notify_one();
}

void StepPlans::work(const std::stop_token& stop) {
  stand_back();
  std::unique_lock<std::mutex> lock(mutex_);
  while (wake_.wait(lock, stop, [this] { return !jobs_.empty(); })) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    PlanOptions options = options_;
    options.stop = stop;
    const bool quick = job.quick && options.evaluations > kQuickEvaluations;
    if (quick) options.evaluations = kQuickEvaluations;
    const std::shared_ptr<StoreSpeed> store = store_;
    lock.unlock();
    if (store) job.trace.store = store->measured();
    std::optional<Plan> made;
    int64_t infeasible_at = 0;
    try {
      made = reprise::plan(job.trace, job.budget, options, job.known);
    } catch (const BudgetInfeasible&) {
      infeasible_at = job.budget;  // steps go on online, and say so themselves if that fails
    } catch (const Error&) {       // stopped, or a step that cannot be planned for
      infeasible_at = std::numeric_limits<int64_t>::max();
    }
    lock.lock();
    busy_ = false;
    job.sequence->planning = false;
    job.sequence->infeasible_at = infeasible_at;
    if (made) {
      ++counts_.plans;
      counts_.replans += job.sequence->found.plan != nullptr;
      adopt(*job.sequence, *made, job.trace.store.has_value());
    }
    if (quick && !stop.stop_requested() && (!made || made->looseness() > 0)) {
      job.quick = false;
      if (made) job.known = {std::move(*made)};
      job.sequence->planning = true;
      jobs_.push_back(std::move(job));
    }
    if (jobs_.empty()) idle_.notify_all();
  }
}

}  // namespace reprise::detail
