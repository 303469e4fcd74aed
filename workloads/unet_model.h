// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "workloads/strategy.h"

// A U-Net (Ronneberger et al., 2015): an encoder that halves height and width from level to level
// and doubles the channels, a decoder that comes back up, and a skip from each level of the encoder
// to that of the decoder.

namespace reprise::workloads {

class UNetModel final : public torch::nn::Module {
 public:
  /// `width` are the channels of the uppermost level.
  UNetModel(int64_t levels, int64_t width, int64_t in_channels, int64_t classes);

  /// The encoder from the top, then the decoder from below; one layer for each level, and one less
  /// in the decoder, which begins above the lowest. What flows is a stack: a layer of the encoder
  /// lays its result upon those before, which are the skips; one of the decoder takes the two
  /// uppermost and lays down one. The first takes the images alone, and the last leaves what head()
  /// takes.
  const std::vector<StateLayer>& layers() const { return layers_; }

  /// The layers of the decoder, of all.
  Segment decoder() const;

  /// Logits, batch x classes x height x width.
  torch::Tensor head(const torch::Tensor& x) { return head_(x); }

 private:
  void add_encoder(int64_t level, int64_t in, int64_t out);
  void add_decoder(int64_t level, int64_t width);

  int64_t levels_;
  std::vector<StateLayer> layers_;
  torch::nn::Conv2d head_{nullptr};
};

}  // namespace reprise::workloads
