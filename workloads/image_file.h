// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Pictures in files. A path comes in; pixels, or one clear error, go out.

namespace reprise::workloads {

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;  ///< height x width x 3: red, green, blue
};

/// Reads a PNG file, or a binary PPM or PGM file of 8 bits; grey becomes three equal colours, and
/// transparency is left out. Throws Error, naming the file, where it cannot be opened, ends too
/// early or is anything else.
Image read_image(const std::string& path);

}  // namespace reprise::workloads
