// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/image_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_ONLY_PNG
#define STBI_ONLY_PNM
#include <stb_image.h>

#include <reprise/error.h>

#include "workloads/words.h"

namespace reprise::workloads {
namespace {

constexpr int kColours = 3;

[[noreturn]] void reject(const std::string& path, const std::string& what) {
  throw Error("'" + path + "': " + what, "the file must be a PNG or a binary PPM image of 8 bits");
}

std::string bytes_of(const std::string& path) {
  if (std::filesystem::is_directory(path)) reject(path, "is a folder");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) reject(path, std::string("cannot be opened: ") + std::strerror(errno));
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (stream.bad()) reject(path, std::string("cannot be read: ") + std::strerror(errno));
  if (bytes.empty()) reject(path, "is empty");
  if (bytes.size() > std::numeric_limits<int>::max()) reject(path, "is too large for an image");
  return bytes;
}

// What follows P6 in a PPM file: width, height and the largest value, between them space or
// comments, and one more character behind. Returns where the pixels begin.
std::size_t pixels_begin(const std::string& bytes, std::string& largest) {
  std::size_t at = 2;
  for (int number = 0; number < 3; ++number) {
    at = bytes.find_first_not_of(" \t\n\v\f\r", at);
    while (at != std::string::npos && bytes[at] == '#') {
      at = bytes.find_first_not_of(" \t\n\v\f\r", bytes.find_first_of("\n\r", at));
    }
    if (at == std::string::npos) return at;
    const std::size_t end = bytes.find_first_not_of("0123456789", at);
    if (end == std::string::npos) return end;
    largest = bytes.substr(at, end - at);
    at = end;
  }
  return at + 1;
}

// stb_image fills up what is missing of a PPM file, and neither scales nor swaps the values of one
// that is not of 8 bits.
void check_pnm(const std::string& path, const std::string& bytes, std::size_t size) {
  std::string largest;
  const std::size_t begin = pixels_begin(bytes, largest);
  if (begin == std::string::npos || begin > bytes.size() || bytes.size() - begin < size) {
    reject(path, "is truncated");
  }
  if (largest != "255") {
    reject(path, "the largest value of a pixel is " + largest.substr(0, 20) + ", expected 255");
  }
}

struct Free {
  void operator()(stbi_uc* pixels) const { stbi_image_free(pixels); }
};

}  // namespace

Image read_image(const std::string& path) {
  const std::string bytes = bytes_of(path);
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const auto length = static_cast<int>(bytes.size());
  const auto unknown = [&] {
    reject(path, std::string("is no image that can be read (") + stbi_failure_reason() + ")");
  };
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(data, length, &width, &height, &channels) == 0) unknown();
  if (width < 1 || height < 1) reject(path, "has no pixels");
  if (bytes[0] == 'P') {
    check_pnm(path, bytes, std::size_t{1} * width * height * channels);
  }
  const std::unique_ptr<stbi_uc, Free> pixels(
      stbi_load_from_memory(data, length, &width, &height, &channels, kColours));
  if (!pixels) unknown();
  const stbi_uc* begin = pixels.get();
  return {height, width, {begin, begin + std::size_t{1} * width * height * kColours}};
}

}  // namespace reprise::workloads
