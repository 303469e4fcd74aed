// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/error.h>
#include <reprise/export.h>

namespace reprise {

/// Work does not fit into its budget. From an operator under a Budget (reprise/budget.h): its
/// allocation would pass the limit although everything that can be brought back has been counted
/// out. It is thrown before memory is exceeded, and does to a step what std::bad_alloc would do.
/// From the planner (reprise/plan.h): no plan fits.
class REPRISE_API BudgetInfeasible : public Error {
 public:
  BudgetInfeasible(const std::string& what, const std::string& hint, int64_t limit, int64_t least,
                   std::string op)
      : Error(what, hint), limit_(limit), least_(least), op_(std::move(op)) {}

  /// Of all LibTorch bytes of the device; from the planner, above the base.
  int64_t limit() const { return limit_; }

  /// What would have been enough, counted as the limit is. From an operator: what a step as the
  /// last measured one needs, planned; but at least, and before a step has been measured, bytes
  /// that nobody can drop at this point and those that were asked for: a later point may need more.
  /// From the planner: the least budget for which it finds a plan. 0 if it is not known.
  int64_t least() const { return least_; }

  /// The operator, or the node of the graph, that asked or at which the least peak stands; empty if
  /// none is known.
  const std::string& op() const { return op_; }

 private:
  int64_t limit_;
  int64_t least_;
  std::string op_;
};

}  // namespace reprise
