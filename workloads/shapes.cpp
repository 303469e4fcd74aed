// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/shapes.h"

namespace reprise::workloads {
namespace {

using torch::Tensor;

constexpr int64_t kShapes = 3;
constexpr double kNoise = 0.2;

}  // namespace

// All pictures at once: a number for each picture is count x 1 x 1, a coordinate 1 x size or
// size x 1, both from 0 to 1.
ShapeImages draw_shapes(int64_t count, int64_t size, at::Generator generator) {
  const auto number = [&](double least, double most) {
    return torch::rand({count, 1, 1}, generator) * (most - least) + least;
  };
  const Tensor x = torch::linspace(0, 1, size).view({1, size});
  const Tensor y = x.t();
  Tensor images = torch::zeros({count, size, size});
  Tensor labels = torch::zeros({count, size, size}, torch::kUInt8);
  for (int64_t i = 0; i < kShapes; ++i) {
    const Tensor is_disc = number(0, 1).lt(0.5);
    const Tensor dx = (x - number(0.15, 0.85)).abs();
    const Tensor dy = (y - number(0.15, 0.85)).abs();
    const Tensor half_width = number(0.1, 0.25);
    const Tensor half_height = number(0.1, 0.25);
    const Tensor disc = (dx.square() + dy.square()).lt(half_width.square());
    const Tensor rectangle = dx.lt(half_width).logical_and(dy.lt(half_height));
    const Tensor inside = torch::where(is_disc, disc, rectangle);
    images = torch::where(inside, number(0.5, 1.5), images);
    labels = torch::where(inside, torch::where(is_disc, 1, 2).to(torch::kUInt8), labels);
  }
  images.add_(torch::randn(images.sizes(), generator), kNoise);
  return {images.unsqueeze(1), labels};
}

}  // namespace reprise::workloads
