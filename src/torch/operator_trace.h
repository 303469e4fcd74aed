// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <ATen/record_function.h>

namespace reprise::detail {

/// While it lives, notes this thread's operators with their arguments, one line each, without those
/// that operators called for themselves: "aten::mm(Float[4, 8], Float[8, 2])". One at a time on a
/// thread notes; those around it wait.
class OperatorTrace {
 public:
  explicit OperatorTrace(std::vector<std::string>& lines);
  ~OperatorTrace();
  OperatorTrace(const OperatorTrace&) = delete;
  OperatorTrace& operator=(const OperatorTrace&) = delete;

 private:
  const at::RecordFunctionGuard observers_on_;
  std::vector<std::string>* const outer_lines_;
  const int outer_depth_;
};

/// Both traces side by side, from a little before the first difference on; a trace that only ends
/// earlier does not differ there if `may_end_early`. Empty if they do not differ.
std::string first_difference(const std::vector<std::string>& forward,
                             const std::vector<std::string>& replay, bool may_end_early);

}  // namespace reprise::detail
