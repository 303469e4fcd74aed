// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace reprise::workloads {

double cosine_with_warmup(int64_t step, int64_t steps) {
  constexpr int64_t kLongestWarmup = 100;
  constexpr double kFloor = 0.1;
  const int64_t warmup = std::min(kLongestWarmup, steps / 10);
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double done = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return kFloor + (1 - kFloor) * (1 + std::cos(std::numbers::pi * std::min(done, 1.0))) / 2;
}

}  // namespace reprise::workloads
