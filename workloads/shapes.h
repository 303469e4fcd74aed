// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <torch/torch.h>

// Pictures of discs and rectangles, and which pixel belongs to which: something to learn
// segmentation from that needs no data. A generator comes in, so that equal seeds give equal
// pictures.

namespace reprise::workloads {

constexpr int64_t kShapeClasses = 3;  ///< 0 is the background, 1 a disc, 2 a rectangle

struct ShapeImages {
  torch::Tensor images;  ///< count x 1 x size x size, float32
  torch::Tensor labels;  ///< count x size x size, uint8: a class for each pixel
};

/// Each picture has three shapes of random kind, place, size and shade, later ones in front of
/// earlier ones, and noise. Both kinds have the same shades, so that only their form tells them
/// apart.
ShapeImages draw_shapes(int64_t count, int64_t size, at::Generator generator);

}  // namespace reprise::workloads
