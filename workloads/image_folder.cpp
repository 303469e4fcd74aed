// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/image_folder.h"

#include <algorithm>
#include <filesystem>

#include <reprise/error.h>

#include "workloads/image_file.h"

namespace reprise::workloads {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kColours = 3;
constexpr int64_t kHeldOutEvery = 10;

const char* const kLayout = "a folder for each class, two or more, with its PNG or PPM images";

std::string by(int64_t height, int64_t width) {
  return std::to_string(width) + "x" + std::to_string(height);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (!entry.path().filename().string().starts_with(".")) entries.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw UsageError("cannot read the folder '" + folder.string() + "': " + error.code().message(),
                     std::string("--images FOLDER names ") + kLayout);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<fs::path> class_folders(const std::string& path) {
  const std::vector<fs::path> entries = entries_of(path);
  for (const fs::path& entry : entries) {
    if (fs::is_directory(entry)) continue;
    throw Error("'" + entry.string() + "' lies in no class",
                std::string("--images FOLDER names ") + kLayout);
  }
  if (entries.size() < 2) {
    throw Error("'" + path + "' holds " + (entries.empty() ? "nothing" : "one class only"),
                std::string("--images FOLDER names ") + kLayout);
  }
  return entries;
}

// Bytes of height x width x 3 as a tensor of the same memory, 1 x 3 x height x width.
torch::Tensor view_of(Image& image) {
  return torch::from_blob(image.pixels.data(), {1, image.height, image.width, kColours},
                          torch::kUInt8)
      .permute({0, 3, 1, 2});
}

}  // namespace

ImageFolder::ImageFolder(const std::string& path, std::optional<int64_t> size) {
  for (const fs::path& folder : class_folders(path)) {
    const std::vector<fs::path> files = entries_of(folder);
    const auto count = static_cast<int64_t>(files.size());
    if (count < 2) {
      throw Error("the class '" + folder.string() + "' holds " +
                      (count == 0 ? "no image" : "one image only"),
                  "two or more are needed: some to learn from, some to test with");
    }
    const int64_t held_out = std::max<int64_t>(count / kHeldOutEvery, 1);
    for (int64_t i = 0; i < count; ++i) {
      auto& part = i < count - held_out ? training_ : held_out_;
      part.push_back({load(files[static_cast<std::size_t>(i)].string(), size), classes()});
    }
    classes_.push_back(folder.filename().string());
  }
}

std::vector<uint8_t> ImageFolder::load(const std::string& file, std::optional<int64_t> size) {
  Image image = read_image(file);
  torch::Tensor pixels = view_of(image);
  if (size && (image.height != *size || image.width != *size)) {
    pixels = at::_upsample_bilinear2d_aa(pixels.to(torch::kFloat32), {*size, *size},
                                         /*align_corners=*/false)
                 .round()
                 .clamp(0, 255)
                 .to(torch::kUInt8);
  }
  if (first_.empty()) {
    first_ = file;
    height_ = pixels.size(2);
    width_ = pixels.size(3);
  }
  if (pixels.size(2) != height_ || pixels.size(3) != width_) {
    throw Error("images of mixed size: '" + first_ + "' is " + by(height_, width_) + ", '" + file +
                    "' is " + by(image.height, image.width),
                "--size N scales all of them to N x N");
  }
  pixels = pixels.contiguous();
  const auto* begin = pixels.data_ptr<uint8_t>();
  return {begin, begin + pixels.numel()};
}

// Centred and scaled by the usual mean and deviation of photographs.
LabelledImages ImageFolder::batch(const std::vector<const Labelled*>& chosen) const {
  const auto count = static_cast<int64_t>(chosen.size());
  torch::Tensor bytes = torch::empty({count, kColours, height_, width_}, torch::kUInt8);
  torch::Tensor labels = torch::empty({count}, torch::kInt64);
  for (int64_t i = 0; i < count; ++i) {
    const Labelled& image = *chosen[static_cast<std::size_t>(i)];
    std::copy(image.pixels.begin(), image.pixels.end(), bytes[i].data_ptr<uint8_t>());
    labels[i] = image.label;
  }
  const torch::Tensor mean = torch::tensor({0.485F, 0.456F, 0.406F}).view({kColours, 1, 1});
  const torch::Tensor deviation = torch::tensor({0.229F, 0.224F, 0.225F}).view({kColours, 1, 1});
  return {bytes.to(torch::kFloat32).div_(255).sub_(mean).div_(deviation), labels};
}

LabelledImages ImageFolder::training(const std::vector<int64_t>& indices) const {
  std::vector<const Labelled*> chosen;
  for (const int64_t index : indices) chosen.push_back(&training_.at(index));
  return batch(chosen);
}

LabelledImages ImageFolder::held_out(int64_t begin, int64_t end) const {
  std::vector<const Labelled*> chosen;
  for (int64_t i = begin; i < end; ++i) chosen.push_back(&held_out_.at(i));
  return batch(chosen);
}

}  // namespace reprise::workloads
