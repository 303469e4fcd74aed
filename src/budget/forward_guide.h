// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "budget/step_plans.h"

namespace reprise::detail {

/// What the tape of one step asks of the plans of its budget. Used under the tape's lock.
class ForwardGuide final : public StepGuide {
 public:
  ForwardGuide(std::shared_ptr<StepPlans> plans, int64_t available,
               std::function<int64_t()> peak_of_step)
      : plans_(std::move(plans)), available_(available), peak_of_step_(std::move(peak_of_step)) {}

  bool measures() override { return plans_->measures(); }

  std::shared_ptr<const Schedule> first() override { return take(plans_->first(available_)); }

  std::shared_ptr<const Schedule> find(uint64_t hash) override {
    return take(plans_->find(hash, available_));
  }

  void ended(StepRecord record) override {
    if (!record.followed) found_ = {};
    plans_->ended(record, {available_, peak_of_step_(), record.drops}, found_);
  }

  void ended_unmeasured(bool followed, int64_t drops) override {
    if (!followed) found_ = {};
    plans_->ended_unmeasured({available_, peak_of_step_(), drops}, found_);
  }

 private:
  std::shared_ptr<const Schedule> take(StepPlans::Found found) {
    found_ = std::move(found);
    return found_.schedule;
  }

  const std::shared_ptr<StepPlans> plans_;
  const int64_t available_;
  const std::function<int64_t()> peak_of_step_;
  StepPlans::Found found_;  // that the tape follows
};

}  // namespace reprise::detail
