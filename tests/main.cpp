// SPDX-License-Identifier: BSD-3-Clause
#include <torch/torch.h>

#include <gmock/gmock.h>

namespace {

// LibTorch seeds its generator anew in each process. A test that drew from it and failed would not
// fail again when it is looked into. --gtest_shuffle --gtest_random_seed=N draws other numbers.
class SeedsTheGenerator : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    torch::manual_seed(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new SeedsTheGenerator);
  return RUN_ALL_TESTS();
}
