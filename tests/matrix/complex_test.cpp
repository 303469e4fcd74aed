// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

// Complex numbers: conj and neg bits, views as reals, spectra.

namespace reprise::matrix {
namespace {

/// There is no complex bfloat16.
const std::vector<at::ScalarType> kTypes{at::kFloat, at::kDouble};

TEST(Matrix, ComplexNumbers) {
  check("complex numbers", training([](const Cell& cell) {
          return model_of(cell, {{4, 4}, {4, 4}}, {4, 4}, [](const auto& p, const Tensor& x) {
            const Tensor z = at::complex(p[0].sin() * x, p[1].cos());
            const Tensor w = z.conj().matmul(z.exp()).mul(z.conj().conj()).tanh();
            const Tensor u = at::imag(z.conj()).sin() + at::real(z).exp();  // a neg bit
            return w * at::complex(u, at::imag(w.conj()) * z.abs()) + z.angle();
          });
        }),
        kTypes);
}

TEST(Matrix, ComplexNumbersInPlaceAndAsReals) {
  check("complex numbers in place", training([](const Cell& cell) {
          return model_of(cell, {{4, 4, 2}}, {4, 4, 2}, [](const auto& p, const Tensor& x) {
            const Tensor z = at::view_as_complex(p[0].exp() * x);
            const Tensor before = z.detach().exp();
            z.conj().mul_(at::view_as_complex(p[0].detach().cos()));
            at::imag(z).add_(p[0].select(2, 0).sin());
            const Tensor between = at::imag(z.detach().conj()).sin();
            at::view_as_real(z).select(2, 1).tanh_();
            return z.sin() * z.conj() * before * between;
          });
        }),
        kTypes);
}

TEST(Matrix, Spectra) {
  check("spectra", training([](const Cell& cell) {
          return model_of(cell, {{4, 8}}, {4, 8}, [](const auto& p, const Tensor& x) {
            const Tensor z = at::fft_rfft(p[0].sin() * x);
            return at::fft_irfft(z * z.conj() * z.exp()).tanh();
          });
        }),
        kTypes);
}

}  // namespace
}  // namespace reprise::matrix
