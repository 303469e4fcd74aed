// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tests/support.h"
#include "tests/ways.h"

// For tests of what checkpoint() promises in whichever way activations come back.

namespace reprise::testing {

inline std::string name_of(const ::testing::TestParamInfo<Way>& info) {
  switch (info.param) {
    case Way::functions:
      return "Functions";
    case Way::whole_functions:
      return "WholeFunctions";
    case Way::operators:
      return "Operators";
  }
  return {};
}

/// Tests that hold in every way. Instantiate with INSTANTIATE_IN_EVERY_WAY.
class EveryWay : public ::testing::TestWithParam<Way> {
 protected:
  CheckpointOptions options() const { return options_of(GetParam()); }
  bool by_function() const { return GetParam() != Way::operators; }

  /// The value and gradients of the sum of what `model` returns are those of a plain run.
  void expect_equal(const std::vector<Tensor>& leaves,
                    const std::function<Tensor(const CheckpointOptions&)>& model) const {
    const auto off = CheckpointOptions().enabled(false);
    const auto plain = loss_and_gradients(leaves, [&] { return model(off).sum(); });
    EXPECT_TRUE(
        same_bits(plain, loss_and_gradients(leaves, [&] { return model(options()).sum(); })));
  }
};

/// The message of whatever exception `work` throws; empty, and a failure, if none.
inline std::string message_of_any(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "no exception";
  return {};
}

#define INSTANTIATE_IN_EVERY_WAY(suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(                                                                \
      All, suite, ::testing::Values(Way::functions, Way::whole_functions, Way::operators), \
      name_of)

}  // namespace reprise::testing
