// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/autocast_mode.h>

#include "tests/fake_operators.h"

namespace reprise::testing {

// As LibTorch lists them for CUDA.
void register_fake_autocast() {
  constexpr auto kKey = c10::DispatchKey::AutocastPrivateUse1;
  kept_library("_", kKey).fallback(torch::CppFunction::makeFallthrough());
  auto& m = kept_library("aten", kKey);
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_BY_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_BY_DTYPE)
}

}  // namespace reprise::testing
