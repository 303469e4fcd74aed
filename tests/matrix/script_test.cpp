// SPDX-License-Identifier: BSD-3-Clause
#include <torch/script.h>

#include "tests/matrix/matrix.h"

// TorchScript. The profiling executor changes its operators from one call to the next, so there are
// several. Each run compiles anew, and so begins with the same executor.

namespace reprise::matrix {
namespace {

constexpr int kCalls = 4;

TEST(Matrix, ScriptFunction) {
  check("script function", training(
                               [](const Cell& cell) {
                                 const auto unit = torch::jit::compile(R"(
                def net(x, w):
                    for i in range(3):
                        x = torch.tanh(torch.mm(x, w)).sin()
                        if i == 1:
                            x = torch.dropout(x * torch.sigmoid(x), 0.2, True)
                    x.add_(1)
                    return torch.softmax(x, -1)
              )");
                                 return model_of(
                                     cell, {{4, 4}}, {4, 4}, [=](const auto& p, const Tensor& x) {
                                       return unit->run_method("net", x, p[0]).toTensor();
                                     });
                               },
                               kCalls));
}

TEST(Matrix, ScriptModule) {
  check("script module", training(
                             [](const Cell& cell) {
                               torch::jit::Module net("net");
                               const auto parameter = [&](const char* name, at::IntArrayRef sizes) {
                                 net.register_parameter(
                                     name, cell.leaf(sizes).mul(0.3).detach().requires_grad_(),
                                     /*is_buffer=*/false);
                               };
                               parameter("kernel", {4, 3, 3, 3});
                               parameter("weight", {2, 4});
                               parameter("scale", {4});
                               const auto options = at::TensorOptions(cell.dtype);
                               net.register_buffer("mean", at::zeros({4}, options));
                               net.register_buffer("var", at::ones({4}, options));
                               net.define(R"(
                def forward(self, x):
                    x = torch.conv2d(x, self.kernel, None, 1, 1)
                    x = torch.batch_norm(x, self.scale, None, self.mean, self.var,
                                         True, 0.1, 1e-5, False)
                    x = torch.relu_(x)
                    y = torch.sigmoid(x) * x.tanh() + x
                    return torch.mm(y.mean([2, 3]), self.weight.t()).sin()
              )");
                               Model model{{2, 3, 6, 6}, {}, {}, {}};
                               for (const Tensor& p : net.parameters())
                                 model.parameters.push_back(p);
                               for (const Tensor& b : net.buffers()) model.buffers.push_back(b);
                               model.forward = [net](const Tensor& x, int) mutable {
                                 return net.forward({x}).toTensor();
                               };
                               return model;
                             },
                             kCalls));
}

}  // namespace
}  // namespace reprise::matrix
