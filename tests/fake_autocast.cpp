// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "tests/fake_operators.h"

namespace reprise::testing {

// As LibTorch lists them for CUDA.
void register_fake_autocast() {
  constexpr auto kKey = c10::DispatchKey::AutocastPrivateUse1;
  static auto& rest = *new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  rest.fallback(torch::CppFunction::makeFallthrough());
  static auto& m = *new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_BY_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_BY_DTYPE)
}

}  // namespace reprise::testing
