// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/torch.h>

// A folder of pictures to learn from: each subfolder is a class and holds its pictures. They stay
// in memory as bytes, outside of LibTorch's allocator, and only batches of them become tensors.

namespace reprise::workloads {

struct LabelledImages {
  torch::Tensor images;  ///< batch x 3 x height x width, float32, about -2 to 2
  torch::Tensor labels;  ///< batch, int64
};

class ImageFolder {
 public:
  /// Reads all of it; classes and pictures are in the order of their names, and names that begin
  /// with a dot are passed over. With `size`, pictures are scaled to that height and width. Throws
  /// UsageError where there is no such folder, and Error for one without at least two classes of
  /// two pictures each, for what read_image() cannot read, and without `size` for pictures of more
  /// than one size.
  ImageFolder(const std::string& path, std::optional<int64_t> size);

  int64_t classes() const { return static_cast<int64_t>(classes_.size()); }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }

  /// One picture in ten of each class, but at least one, is not for training.
  int64_t training_count() const { return static_cast<int64_t>(training_.size()); }
  int64_t held_out_count() const { return static_cast<int64_t>(held_out_.size()); }

  LabelledImages training(const std::vector<int64_t>& indices) const;
  LabelledImages held_out(int64_t begin, int64_t end) const;  ///< half-open

 private:
  struct Labelled {
    std::vector<uint8_t> pixels;  // 3 x height x width
    int64_t label = 0;
  };

  std::vector<uint8_t> load(const std::string& file, std::optional<int64_t> size);
  LabelledImages batch(const std::vector<const Labelled*>& chosen) const;

  std::string first_;  // the file that sets height and width
  int64_t height_ = 0;
  int64_t width_ = 0;
  std::vector<std::string> classes_;
  std::vector<Labelled> training_;
  std::vector<Labelled> held_out_;
};

}  // namespace reprise::workloads
