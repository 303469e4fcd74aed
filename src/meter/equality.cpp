// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include <reprise/equality.h>
#include <reprise/error.h>

namespace reprise {
namespace {

// The elements in order, one after another: no strides, and no lazy conjugation, negation or zero.
at::Tensor plain_elements(const at::Tensor& tensor) {
  at::Tensor t = tensor.detach();
  if (t._is_zerotensor()) t = t.clone();
  return t.resolve_conj().resolve_neg().contiguous();
}

bool same_elements(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return true;
  const at::Tensor x = plain_elements(a);
  const at::Tensor y = plain_elements(b);
  if (x.is_cpu()) return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
  return x.view({-1}).view(at::kByte).equal(y.view({-1}).view(at::kByte));
}

void check_has_elements(const at::Tensor& t) {
  if ((t.layout() == at::kStrided || t.layout() == at::kSparse) && !t.is_meta() &&
      !t.is_quantized()) {
    return;
  }
  std::ostringstream what;
  what << "cannot compare the elements of a tensor of type " << t.toString();
  throw UsageError(what.str(), "compare strided or sparse (COO) tensors that hold data");
}

// Their difference as the header defines it: a number, or infinity, but never NaN.
double difference(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  const double d = std::abs(x - y);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

at::Tensor as_doubles(const at::Tensor& tensor) {
  check_has_elements(tensor);
  at::Tensor t = tensor.detach();
  if (t.is_sparse()) t = t.to_dense();
  return plain_elements(t).to(at::kCPU).to(t.is_complex() ? at::kComplexDouble : at::kDouble);
}

}  // namespace

bool bit_equal(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  check_has_elements(a);
  check_has_elements(b);
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type() || a.device() != b.device() ||
      a.layout() != b.layout()) {
    return false;
  }
  if (!a.is_sparse()) return same_elements(a, b);
  return bit_equal(a._indices(), b._indices()) && bit_equal(a._values(), b._values());
}

double max_abs_difference(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) {
    return a.defined() == b.defined() ? 0 : std::numeric_limits<double>::infinity();
  }
  if (a.sizes() != b.sizes()) {
    std::ostringstream what;
    what << "max_abs_difference: the shapes " << a.sizes() << " and " << b.sizes() << " differ";
    throw UsageError(what.str(), "compare tensors of the same shape");
  }
  at::Tensor x = as_doubles(a);
  at::Tensor y = as_doubles(b);
  const bool complex = x.is_complex() || y.is_complex();
  if (complex) x = x.to(at::kComplexDouble), y = y.to(at::kComplexDouble);
  const auto* p = static_cast<const double*>(x.const_data_ptr());
  const auto* q = static_cast<const double*>(y.const_data_ptr());
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double d =
        complex ? std::hypot(difference(p[2 * i], q[2 * i]), difference(p[2 * i + 1], q[2 * i + 1]))
                : difference(p[i], q[i]);
    largest = std::max(largest, d);
  }
  return largest;
}

}  // namespace reprise
