// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace reprise::workloads {
namespace {

// Definition 7 of Hyndman and Fan, Sample Quantiles in Statistical Packages, 1996.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 == sorted.size()) return sorted.back();
  return std::lerp(sorted[below], sorted[below + 1], at - static_cast<double>(below));
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

// Values that Tukey calls far out (Exploratory Data Analysis, 1977), on the slow side only: nothing
// makes a step too fast. The share of the median keeps steady timings from being told apart by the
// grain of the clock.
bool far_out(double value, const Spread& spread) {
  return value > spread.q3 + 3 * (spread.q3 - spread.q1) && value > 1.1 * spread.median;
}

constexpr std::size_t kFewestRounds = 6;
constexpr int kResamples = 2000;

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Spread spread{values.front(),         quantile(values, 0.25), quantile(values, 0.5),
                quantile(values, 0.75), values.back(),          0};
  spread.outliers = std::count_if(values.begin(), values.end(),
                                  [&](double value) { return far_out(value, spread); });
  return spread;
}

// The percentile bootstrap over rounds: Efron and Tibshirani, An Introduction to the Bootstrap,
// 1993, chapter 13. The generator's numbers are fixed by the standard, its distributions are not.
std::optional<Interval> ratio_interval(const std::vector<double>& values,
                                       const std::vector<double>& reference) {
  const std::size_t rounds = values.size();
  if (rounds < kFewestRounds) return std::nullopt;
  std::mt19937_64 generator(1993);
  std::vector<double> a(rounds), b(rounds), ratios;
  for (int sample = 0; sample < kResamples; ++sample) {
    for (std::size_t i = 0; i < rounds; ++i) {
      const std::size_t round = generator() % rounds;
      a[i] = values[round];
      b[i] = reference[round];
    }
    ratios.push_back(median(a) / median(b));
  }
  std::sort(ratios.begin(), ratios.end());
  a = values;
  b = reference;
  const double ratio = median(a) / median(b);
  return Interval{std::min(quantile(ratios, 0.025), ratio),
                  std::max(quantile(ratios, 0.975), ratio)};
}

}  // namespace reprise::workloads
