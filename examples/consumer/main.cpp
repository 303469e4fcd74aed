// SPDX-License-Identifier: BSD-3-Clause
// Compares the gradient of a checkpointed function with that of the plain one.
#include <cstdio>

#include <reprise/reprise.h>

#include <ATen/ops/linspace.h>

int main() {
  const auto function = [](const at::Tensor& t) { return t.sin().exp(); };

  at::Tensor plain = at::linspace(-1, 1, 64).requires_grad_();
  function(plain).sum().backward();

  at::Tensor x = at::linspace(-1, 1, 64).requires_grad_();
  reprise::checkpoint(function, x).sum().backward();

  if (!x.grad().equal(plain.grad())) {
    std::puts("gradients differ");
    return 1;
  }
  std::puts("ok");
  return 0;
}
