// SPDX-License-Identifier: BSD-3-Clause
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/torch.h>

#include <gtest/gtest.h>

namespace {

using reprise::bit_equal;
using reprise::max_abs_difference;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

torch::Tensor floats_of_bits(std::vector<int32_t> bits) {
  return torch::tensor(bits, torch::kInt).view(torch::kFloat);
}

TEST(BitEqualTest, nan_equals_the_same_nan_only) {
  const auto a = floats_of_bits({0x7fc00000, 0x7fc00001});
  EXPECT_TRUE(bit_equal(a, a.clone()));
  EXPECT_FALSE(bit_equal(a, floats_of_bits({0x7fc00000, 0x7fc00002})));
  EXPECT_FALSE(bit_equal(a, floats_of_bits({0x7fc00000, int32_t(0xffc00001)})));
}

TEST(BitEqualTest, zero_differs_from_negative_zero) {
  EXPECT_FALSE(bit_equal(torch::tensor({0.0f}), torch::tensor({-0.0f})));
  EXPECT_TRUE(bit_equal(torch::tensor({-0.0f}), torch::tensor({-0.0f})));
}

TEST(BitEqualTest, strides_do_not_matter) {
  const auto a = torch::arange(12.0).view({3, 4});
  const auto b = a.t().contiguous().t();
  EXPECT_NE(a.strides(), b.strides());
  EXPECT_TRUE(bit_equal(a, b));
  EXPECT_FALSE(bit_equal(a.view({4, 3}), a.t()));
  EXPECT_TRUE(bit_equal(torch::ones({1}).expand({5}), torch::ones({5})));
  EXPECT_TRUE(bit_equal(a.slice(1, 0, 4, 2), a.clone().slice(1, 0, 4, 2)));
}

TEST(BitEqualTest, every_dtype_sees_one_changed_element) {
  for (const auto dtype :
       {torch::kBool, torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong,
        torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kComplexFloat,
        torch::kComplexDouble, torch::kFloat8_e4m3fn, torch::kUInt32}) {
    const auto a = torch::ones({7}).to(dtype);
    auto values = torch::ones({7});
    values[6] = 0;
    EXPECT_TRUE(bit_equal(a, a.clone())) << dtype;
    EXPECT_FALSE(bit_equal(a, values.to(dtype))) << dtype;
  }
}

TEST(BitEqualTest, shape_and_dtype_belong_to_it) {
  const auto a = torch::zeros({2, 3});
  EXPECT_FALSE(bit_equal(a, torch::zeros({3, 2})));
  EXPECT_FALSE(bit_equal(a, torch::zeros({6})));
  EXPECT_FALSE(bit_equal(a, torch::zeros({2, 3}, torch::kInt)));
  EXPECT_FALSE(bit_equal(torch::ones({1}), torch::ones({})));
}

TEST(BitEqualTest, undefined_equals_undefined_only) {
  EXPECT_TRUE(bit_equal({}, {}));
  EXPECT_FALSE(bit_equal({}, torch::zeros({0})));
  EXPECT_FALSE(bit_equal(torch::zeros({0}), {}));
}

TEST(BitEqualTest, empty_tensors_of_one_shape_are_equal) {
  EXPECT_TRUE(bit_equal(torch::zeros({0, 3}), torch::zeros({0, 3})));
  EXPECT_FALSE(bit_equal(torch::zeros({0, 3}), torch::zeros({0, 4})));
}

TEST(BitEqualTest, lazy_conjugation_negation_and_zeros_are_resolved) {
  const auto a = torch::randn({5}, torch::kComplexFloat);
  ASSERT_TRUE(a.conj().is_conj());
  EXPECT_TRUE(bit_equal(a.conj(), a.conj_physical()));
  EXPECT_FALSE(bit_equal(a.conj(), a));
  const auto imaginary = torch::imag(a.conj());
  ASSERT_TRUE(imaginary.is_neg());
  EXPECT_TRUE(bit_equal(imaginary, -torch::imag(a)));
  EXPECT_TRUE(bit_equal(torch::_efficientzerotensor({5}), torch::zeros({5})));
  EXPECT_FALSE(bit_equal(torch::_efficientzerotensor({5}), torch::ones({5})));
}

TEST(BitEqualTest, records_no_gradient) {
  const auto a = torch::ones({2, 3}, torch::requires_grad()) * 2;
  EXPECT_TRUE(bit_equal(a.t(), a.detach().t()));
  EXPECT_EQ(max_abs_difference(a.t(), a.detach().t()), 0);
}

TEST(BitEqualTest, sparse_tensors_compare_indices_and_values) {
  const auto a = torch::eye(3).to_sparse();
  EXPECT_TRUE(bit_equal(a, a.clone()));
  EXPECT_FALSE(bit_equal(a, a * 2));
  EXPECT_FALSE(bit_equal(a, torch::eye(3).flip(0).to_sparse()));
  EXPECT_FALSE(bit_equal(a, torch::eye(3)));
  EXPECT_EQ(max_abs_difference(a, torch::eye(3) * 3), 2);
}

TEST(BitEqualTest, tensors_without_elements_to_compare_are_refused) {
  const auto meta = torch::empty({3}, torch::kMeta);
  EXPECT_THROW(bit_equal(meta, meta), reprise::UsageError);
  EXPECT_THROW(max_abs_difference(meta, meta), reprise::UsageError);
  const auto rows = torch::eye(3).to_sparse_csr();
  EXPECT_THROW(bit_equal(rows, rows), reprise::UsageError);
}

TEST(MaxAbsDifferenceTest, is_the_largest_of_all_elements) {
  const auto a = torch::tensor({1.0, 2.0, -3.0});
  EXPECT_EQ(max_abs_difference(a, a), 0);
  EXPECT_EQ(max_abs_difference(a, torch::tensor({1.5, 2.0, -1.0})), 2);
  EXPECT_EQ(max_abs_difference(torch::tensor({0.0f}), torch::tensor({-0.0f})), 0);
  EXPECT_EQ(max_abs_difference(torch::ones({2, 3}).t(), torch::zeros({3, 2})), 1);
}

TEST(MaxAbsDifferenceTest, is_computed_in_float64) {
  const auto a = torch::tensor({1.0}, torch::kDouble);
  EXPECT_EQ(max_abs_difference(a, a + 0x1p-52), 0x1p-52);
  EXPECT_EQ(max_abs_difference(torch::tensor({1.0f}), torch::tensor({1}, torch::kInt)), 0);
  const auto half = torch::tensor({65504.0f}).to(torch::kHalf);
  EXPECT_EQ(max_abs_difference(half, -half), 131008);
  EXPECT_EQ(max_abs_difference(torch::tensor({true}), torch::tensor({false})), 1);
}

TEST(MaxAbsDifferenceTest, nan_and_infinity_are_never_hidden) {
  const auto value = [](double x) { return torch::tensor({x, 1.0}, torch::kDouble); };
  EXPECT_EQ(max_abs_difference(value(kNan), value(kNan)), 0);
  EXPECT_EQ(max_abs_difference(value(kNan), value(1)), kInfinity);
  EXPECT_EQ(max_abs_difference(value(1), value(kNan)), kInfinity);
  EXPECT_EQ(max_abs_difference(value(kInfinity), value(kInfinity)), 0);
  EXPECT_EQ(max_abs_difference(value(kInfinity), value(-kInfinity)), kInfinity);
  EXPECT_EQ(max_abs_difference(value(kInfinity), value(1)), kInfinity);
  EXPECT_EQ(max_abs_difference(value(kInfinity), value(kNan)), kInfinity);
}

TEST(MaxAbsDifferenceTest, of_complex_elements_is_the_distance) {
  const auto a = torch::complex(torch::tensor({3.0}), torch::tensor({4.0}));
  EXPECT_EQ(max_abs_difference(a, torch::zeros({1})), 5);
  EXPECT_EQ(max_abs_difference(a.conj(), a), 8);
}

TEST(MaxAbsDifferenceTest, of_nothing) {
  EXPECT_EQ(max_abs_difference(torch::zeros({0}), torch::zeros({0})), 0);
  EXPECT_EQ(max_abs_difference({}, {}), 0);
  EXPECT_EQ(max_abs_difference({}, torch::zeros({1})), kInfinity);
}

TEST(MaxAbsDifferenceTest, different_shapes_are_a_usage_error) {
  try {
    max_abs_difference(torch::zeros({2, 3}), torch::zeros({3, 2}));
    FAIL();
  } catch (const reprise::UsageError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("[2, 3] and [3, 2]"), std::string::npos) << message;
    EXPECT_NE(message.find("\nhint: "), std::string::npos) << message;
  }
}

}  // namespace
