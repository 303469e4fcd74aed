// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <reprise/budget.h>
#include <reprise/plan.h>

#include "budget/store_speed.h"
#include "profile/step_trace.h"
#include "tape/schedule.h"

// The plans of one budget: steps are measured as they run, planned for in a thread of its own, and
// followed from then on. Each sequence of operators and shapes has its own plan; the least recently
// used are forgotten.

namespace reprise::detail {

/// What is told of a step that has ended.
struct EndedStep {
  int64_t available = 0;  // bytes that the step could use
  int64_t peak = 0;       // that it used
  int64_t drops = 0;      // for want of room
};

/// Thread-safe.
class StepPlans : public std::enable_shared_from_this<StepPlans> {
 public:
  /// `sparing`: to measure a step makes it slower, so settled plans are looked at now and then.
  explicit StepPlans(bool sparing) : sparing_(sparing) {}
  ~StepPlans();
  StepPlans(const StepPlans&) = delete;
  StepPlans& operator=(const StepPlans&) = delete;

  /// A step begins that may use so many bytes; `peak_of_step` tells what it has used when it ends.
  std::shared_ptr<StepGuide> guide(int64_t available, std::function<int64_t()> peak_of_step);

  void stop();
  void plan_with(const PlanOptions& options);
  void offer(Plan plan);
  /// A plan for a step that nobody has measured here yet. Throws UsageError if it does not hold,
  /// and if it sends before there is a store.
  void follow(MappedTrace step, Plan plan);
  /// Plans may send to it from now on.
  void into(const Store& store);
  void finish();

  std::optional<StepTrace> trace() const;
  std::optional<Plan> followed() const;
  /// Fills in what is known of plans.
  void summarise(BudgetSummary& summary) const;

 private:
  friend class ForwardGuide;

  /// A schedule that can be followed, its plan, judged by the last measurements, and the plan as it
  /// was made, with a bound.
  struct Sequence;
  struct Found {
    std::shared_ptr<const Schedule> schedule;
    std::shared_ptr<const Plan> plan, made;
    std::weak_ptr<Sequence> sequence;  // that it is of
    bool knew_store = false;           // when it was made
  };

  /// A sequence of operators and shapes, with its backward pass.
  struct Sequence {
    std::string key;
    int64_t gradients = 0;  // bytes that it leaves behind: none where they were there before
    MappedTrace mapped;     // of the first measurement; the trace is the median of the last ones
    std::vector<StepTrace> measured;
    Found found;        // empty while there is no plan
    bool warm = false;  // the first measurement has been given up for another one
    bool planning = false;
    int64_t infeasible_at = 0;  // no plan was found for so many bytes
    int64_t margin = 0;         // bytes that plans leave free, since one took more than it said
    int replans = 0;
    int steps_since_plan = 0;  // that followed it
  };
  using Sequences = std::list<std::shared_ptr<Sequence>>;  // the last used first

  struct Job {
    std::shared_ptr<Sequence> sequence;
    StepTrace trace;
    int64_t budget;
    std::vector<Plan> known;
    bool quick;  // a plan soon; a better one is looked for when nobody waits for another
  };

  bool measures();
  Found first(int64_t available);
  Found find(uint64_t hash, int64_t available);
  void ended(const StepRecord& record, const EndedStep& step, const Found& followed);
  void ended_unmeasured(const EndedStep& step, const Found& followed);

  // With the lock:
  void count(const EndedStep& step, const Found& followed);
  std::shared_ptr<Sequence> sequence_of(MappedTrace mapped);
  std::optional<TracedStore> speed_of_store(bool needed);
  void adopt(Sequence& sequence, Plan plan, bool knew_store);
  void consider(const std::shared_ptr<Sequence>& sequence, const StepRecord& record,
                const EndedStep& step, const std::optional<TracedStore>& store);
  void begin_planning(const std::shared_ptr<Sequence>& sequence, int64_t available);
  Found best(uint64_t hash, int64_t available) const;
  void forget_oldest();
  void work(const std::stop_token& stop);

  const bool sparing_;

  mutable std::mutex mutex_;
  Sequences sequences_;
  // Of each beginning; several where steps leave different gradients behind.
  std::unordered_multimap<uint64_t, std::weak_ptr<Sequence>> by_hash_;
  PlanOptions options_;
  std::vector<Plan> offered_;
  std::shared_ptr<const Plan> followed_;
  std::optional<StepTrace> trace_;
  BudgetSummary counts_;
  std::shared_ptr<StoreSpeed> store_;  // null: there is none
  bool stopped_ = false;
  int unmeasured_ = 0;    // steps since the last that was measured
  int look_closely_ = 0;  // steps to come that are worth measuring

  std::list<Job> jobs_;
  bool busy_ = false;
  std::condition_variable_any wake_, idle_;
  std::jthread worker_;  // begun with the first job
};

}  // namespace reprise::detail
