// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/ivalue.h>

namespace reprise::detail {

struct OperatorInfo;

/// How fast this machine runs operators, measured once in a process with the threads of that time:
/// for estimates of what is not run.
struct OperatorRates {
  double flops_per_us = 0;  ///< of matrix products
  double bytes_per_us = 0;  ///< read and written
  double draws_per_us = 0;  ///< bytes of random numbers
  double us_per_call = 0;

  /// Measures on the first call, which takes a tenth of a second.
  static const OperatorRates& of_this_machine();

  /// The time of a call by the shapes of its tensors: the longest of computing, moving and drawing.
  double microseconds(const OperatorInfo& op, c10::ArrayRef<c10::IValue> arguments,
                      c10::ArrayRef<c10::IValue> results) const;
};

}  // namespace reprise::detail
