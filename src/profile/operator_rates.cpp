// SPDX-License-Identifier: BSD-3-Clause
#include "profile/operator_rates.h"

#include <algorithm>
#include <chrono>

#include <ATen/Functions.h>

#include "profile/flops.h"
#include "torch/below_autograd.h"
#include "torch/below_modes.h"
#include "torch/ivalues.h"
#include "torch/operator_info.h"
#include "torch/rng.h"

namespace reprise::detail {
namespace {

/// The least of several times, in microseconds.
template <class Work>
double time_of(const Work& work) {
  constexpr int kTimes = 5;
  double least = 0;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    if (i == 0 || time.count() < least) least = time.count();
  }
  return std::max(least, 1e-3);
}

OperatorRates measure() {
  const BelowAutograd below;
  const BelowModes real;
  const RngState before = RngState::capture({});
  constexpr int64_t kSide = 512, kNumbers = 2 << 20;
  OperatorRates rates;
  const at::Tensor a = at::ones({kSide, kSide}), b = at::ones({kSide, kSide});
  const at::Tensor x = at::ones({kNumbers}), y = at::empty({kNumbers}), one = at::ones({1});
  const auto bytes = static_cast<double>(x.nbytes());
  rates.us_per_call = time_of([&] { at::add(one, one); });
  rates.flops_per_us = 2.0 * kSide * kSide * kSide / time_of([&] { at::mm(a, b); });
  rates.bytes_per_us = 3 * bytes / time_of([&] { at::add_out(const_cast<at::Tensor&>(y), x, x); });
  rates.draws_per_us = bytes / time_of([&] { y.bernoulli_(0.5); });
  before.restore();
  return rates;
}

int64_t bytes_of(c10::ArrayRef<c10::IValue> values) {
  int64_t bytes = 0;
  visit_tensors(values, [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) bytes += static_cast<int64_t>(tensor.nbytes());
  });
  return bytes;
}

}  // namespace

const OperatorRates& OperatorRates::of_this_machine() {
  static const OperatorRates rates = measure();
  return rates;
}

double OperatorRates::microseconds(const OperatorInfo& op, c10::ArrayRef<c10::IValue> arguments,
                                   c10::ArrayRef<c10::IValue> results) const {
  const bool view = op.writes.empty() && !op.aliases.empty();
  if (view) return us_per_call;
  const int64_t flops = count_flops(op, arguments).total(results);
  const int64_t made = bytes_of(results);
  const double computing = static_cast<double>(flops) / flops_per_us;
  const double moving = static_cast<double>(bytes_of(arguments) + made) / bytes_per_us;
  const double drawing = op.draws && flops == 0 ? static_cast<double>(made) / draws_per_us : 0;
  return us_per_call + std::max({computing, moving, drawing});
}

}  // namespace reprise::detail
