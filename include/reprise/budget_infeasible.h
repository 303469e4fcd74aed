// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/error.h>
#include <reprise/export.h>

namespace reprise {

/// The work does not fit into its budget: an allocation would pass the limit although everything
/// that can be brought back has been counted out. Thrown before memory is exceeded, by the operator
/// that allocates; what it does to a step is what std::bad_alloc would do. See reprise/budget.h.
class REPRISE_API BudgetInfeasible : public Error {
 public:
  BudgetInfeasible(const std::string& what, const std::string& hint, int64_t limit, int64_t least,
                   std::string op)
      : Error(what, hint), limit_(limit), least_(least), op_(std::move(op)) {}

  /// Of all LibTorch bytes of the device.
  int64_t limit() const { return limit_; }

  /// What the work would have needed at this point, counted as the limit is: bytes that nobody can
  /// drop, and those that were asked for. A later point may need more. 0 if it is not known.
  int64_t least() const { return least_; }

  /// The operator, or the node of the graph, that asked; empty if none is known.
  const std::string& op() const { return op_; }

 private:
  int64_t limit_;
  int64_t least_;
  std::string op_;
};

}  // namespace reprise
