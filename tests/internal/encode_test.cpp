// SPDX-License-Identifier: BSD-3-Clause
#include "tape/encode.h"

#include <reprise/equality.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

namespace reprise::detail {
namespace {

using at::Tensor;

// Around the ends of bytes, of blocks, and of the work of one thread.
const std::vector<int64_t> kCounts{2, 7, 8, 9, 63, 511, 512, 513, 1000, 1536, 64 * 512 + 3, 100003};

Tensor two_valued(int64_t count, at::ScalarType type) {
  const Tensor mask = at::rand({count}).lt(0.3);
  mask[0].fill_(false);
  mask[count - 1].fill_(true);
  return type == at::kBool ? mask : at::where(mask, 0.1, -2.5).to(type);
}

TEST(Encode, TwoValuesBecomeBitsAndComeBackBitByBit) {
  for (const at::ScalarType type : {at::kBool, at::kHalf, at::kFloat, at::kDouble}) {
    for (const int64_t count : kCounts) {
      const Tensor tensor = two_valued(count, type);
      const auto encoded = Encoded::encode(tensor);
      ASSERT_TRUE(encoded) << type << ' ' << count;
      EXPECT_TRUE(bit_equal(encoded->decode(), tensor)) << type << ' ' << count;
      EXPECT_LE(encoded->bytes(), count / 8 + 64);
    }
  }
}

TEST(Encode, AThirdValueAnywhereIsSeen) {
  for (const at::ScalarType type : {at::kHalf, at::kFloat, at::kDouble}) {
    for (const int64_t count : kCounts) {
      if (count < 3) continue;
      for (const int64_t place : {int64_t{1}, count / 2, count - 2}) {
        const Tensor tensor = two_valued(count, type);
        tensor[place].fill_(3);
        EXPECT_FALSE(Encoded::encode(tensor)) << type << ' ' << count << ' ' << place;
      }
    }
  }
}

// Values are compared as bits: a negative zero and every NaN are values of their own.
TEST(Encode, BitsNotNumbersCount) {
  const Tensor zeros = at::tensor({0.0F, -0.0F, 0.0F, -0.0F});
  EXPECT_TRUE(bit_equal(Encoded::encode(zeros)->decode(), zeros));
  EXPECT_FALSE(Encoded::encode(at::tensor({0.0F, -0.0F, 1.0F})));
  const Tensor nan = at::tensor({std::nanf("1"), 1.0F, std::nanf("1")});
  EXPECT_TRUE(bit_equal(Encoded::encode(nan)->decode(), nan));
}

TEST(Encode, IntegersBecomeAsNarrowAsTheyFit) {
  for (const auto& [high, width] : {std::pair<int64_t, int64_t>{255, 1},
                                    {-128, 1},
                                    {-129, 2},
                                    {256, 2},
                                    {40000, 4},
                                    {int64_t{1} << 31, 8}}) {
    const Tensor tensor = at::full({100}, 1, at::kLong);
    tensor[7].fill_(high);
    const auto encoded = Encoded::encode(tensor);
    ASSERT_EQ(encoded.has_value(), width < 8) << high;
    if (!encoded) continue;
    EXPECT_EQ(encoded->bytes(), 100 * width) << high;
    EXPECT_TRUE(bit_equal(encoded->decode(), tensor)) << high;
  }
}

TEST(Encode, WhatIsNotDenseIsLeftAlone) {
  const Tensor mask = two_valued(100, at::kFloat);
  EXPECT_FALSE(Encoded::encode(mask.slice(0, 0, 50)));
  EXPECT_FALSE(Encoded::encode(at::empty({0})));
  EXPECT_FALSE(Encoded::encode(mask.expand({3, 100})[0].slice(0, 1)));
  EXPECT_TRUE(Encoded::encode(mask.view({10, 10}).t()));
}

}  // namespace
}  // namespace reprise::detail
