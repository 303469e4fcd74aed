// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <limits>

#include "plan/blocks.h"
#include "plan/convert.h"

namespace reprise::planner {

std::vector<char> large_values(const Problem& problem) {
  Outcome plain;
  Simulator(problem).run(plain_steps(problem), plain);
  std::vector<char> large(problem.values);
  for (Index v = 0; v < problem.values; ++v) large[v] = problem.bytes[v] > plain.peak / 4096;
  return large;
}

std::vector<Index> choose_cuts(const Problem& problem, int most_large) {
  const std::vector<char> large = large_values(problem);
  const Index n = problem.operators;
  std::vector<double> crossing(n + 2, 0);  // bytes, by position
  std::vector<int> larges(n + 1, 0);       // made before a position
  double total = 0;
  for (Index v = 0; v < problem.values; ++v) {
    const auto bytes = static_cast<double>(problem.bytes[v]);
    total += bytes;
    larges[problem.producer[v] + 1] += large[v];
    if (problem.last_read[v] > problem.producer[v]) {
      crossing[problem.producer[v] + 1] += bytes;
      crossing[problem.last_read[v] + 1] -= bytes;
    }
  }
  for (Index p = 0; p < n; ++p) {
    larges[p + 1] += larges[p];
    crossing[p + 1] += crossing[p];
  }

  // A cut has a small price of its own, and so has a block with little to choose from.
  const double cut_price = total * 0.001;
  const double small_price = total * 0.00125;
  std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
  std::vector<Index> from(n + 1, 0);
  best[0] = 0;
  for (Index p = 1; p <= n; ++p) {
    for (Index q = p - 1; q >= 0; --q) {
      const int inside = larges[p] - larges[q];
      if (inside > most_large && p - q > 1) break;
      const double few = p < n ? small_price * std::max(0, 4 - inside) : 0;
      const double price = best[q] + (p < n ? crossing[p] : 0) + few + cut_price;
      if (price < best[p]) {
        best[p] = price;
        from[p] = q;
      }
    }
  }
  std::vector<Index> cuts{n};
  while (cuts.back() > 0) cuts.push_back(from[cuts.back()]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace reprise::planner
