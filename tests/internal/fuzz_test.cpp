// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/Parallel.h>

#include <gtest/gtest.h>

#include "fuzz/runner.h"

// Random programs from fixed seeds, plainly and under tapes. In parts, so that they run side by
// side.

namespace reprise::fuzz {
namespace {

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, AreBitIdenticalToPlain) {
  constexpr int kPrograms = 2500;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  Tally tally;
  for (int i = 0; i < kPrograms && tally.differ < 3; ++i) {
    const Program program = generate(static_cast<uint64_t>(GetParam() * kPrograms + i));
    const Finding finding = check(program);
    tally.add(finding);
    if (finding.verdict == Verdict::differs) ADD_FAILURE() << explain(program);
  }
  at::set_num_threads(threads);
  std::cout << tally.str() << "\n";
  EXPECT_LT(10 * (tally.skipped + tally.both_raise), 3 * tally.programs)
      << "too few programs have gradients to compare";
  EXPECT_GT(4 * tally.followed, tally.programs) << "too few follow plans";
  EXPECT_GT(tally.fetched, tally.programs) << "too few values come back from a store";
  EXPECT_GT(tally.faults, 2500) << "in four parts, 10,000 are promised";
  EXPECT_LT(20 * tally.complained, tally.programs) << "too many are not compared to their end";
}

INSTANTIATE_TEST_SUITE_P(Fuzz, RandomPrograms, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace reprise::fuzz
