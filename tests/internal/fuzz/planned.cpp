// SPDX-License-Identifier: BSD-3-Clause
#include "planned.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <reprise/plan.h>

#include "profile/step_trace.h"
#include "program.h"

namespace reprise::fuzz {

class Plans::Guide final : public detail::StepGuide {
 public:
  std::shared_ptr<const detail::Schedule> first() override { return schedule; }
  std::shared_ptr<const detail::Schedule> find(uint64_t) override { return nullptr; }
  void ended(detail::StepRecord record) override {
    followed += record.followed;
    measured = std::move(record);
  }
  void ended_unmeasured(bool, int64_t) override {}
  bool measures() override { return true; }

  std::optional<detail::StepRecord> measured;
  std::shared_ptr<const detail::Schedule> schedule;
  int followed = 0;
};

std::shared_ptr<detail::StepGuide> Plans::next_guide() {
  if (next_ == guides_.size()) guides_.push_back(std::make_shared<Guide>());
  return guides_[next_++];
}

void Plans::make() {
  PlanOptions options;
  options.evaluations = 100;
  options.bound = false;
  for (std::size_t i = 0; i < guides_.size(); ++i) {
    Guide& guide = *guides_[i];
    if (!guide.measured) continue;
    const auto mapped = detail::trace_of(*guide.measured);
    if (!mapped) continue;
    const StepTrace& trace = mapped->trace;
    const int64_t plain = plan(trace, int64_t{1} << 60, options).plain_peak_bytes;
    const uint64_t draw = mix(seed_, 100 + i);
    try {
      const auto percent = static_cast<int64_t>(20 + draw % 81);
      const Plan made = draw % 3 == 0
                            ? least_budget(trace, options).plan
                            : plan(trace, std::max<int64_t>(1, plain * percent / 100), options);
      guide.schedule = detail::schedule_of(made, *mapped);
    } catch (const BudgetInfeasible&) {
      guide.schedule = detail::schedule_of(least_budget(trace, options).plan, *mapped);
    }
  }
}

int Plans::followed() const {
  int count = 0;
  for (const auto& guide : guides_) count += guide->followed;
  return count;
}

}  // namespace reprise::fuzz
