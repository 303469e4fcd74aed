// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

// What repeated timings say: their middle, how far they spread, which of them do not belong, and
// how sure a ratio of two middles is. None of it supposes that they follow any distribution.

namespace reprise::workloads {

/// Quartiles are interpolated between neighbours, as R and NumPy do by default.
struct Spread {
  double min = 0;
  double q1 = 0;
  double median = 0;
  double q3 = 0;
  double max = 0;
  int64_t outliers = 0;  ///< values above q3 + 3 (q3 - q1) that also exceed the median by 10 %
};

/// REQUIRES: at least one value.
Spread spread_of(std::vector<double> values);

struct Interval {
  double low = 0;
  double high = 0;
};

/// The 95 % confidence interval of median(values) / median(reference), where values[i] and
/// reference[i] were measured in the same round, so that what disturbs a round disturbs both.
/// Contains that ratio, and is the same for equal input. Empty for less than 6 rounds: no
/// distribution-free interval of a median reaches 95 % with fewer. REQUIRES: equal sizes.
std::optional<Interval> ratio_interval(const std::vector<double>& values,
                                       const std::vector<double>& reference);

}  // namespace reprise::workloads
