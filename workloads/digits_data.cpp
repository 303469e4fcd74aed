// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/digits_data.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>
#include <zlib.h>

#include <reprise/error.h>

#include <ATen/Functions.h>

#include "workloads/words.h"

namespace reprise::workloads {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "digits.csv.gz";
constexpr int64_t kPixels = 64;
constexpr int64_t kBrightest = 16;
constexpr int64_t kLastLabel = 9;
constexpr std::size_t kLargestFile = 64U << 20;  // 250 times the real one, unpacked

[[noreturn]] void corrupt(const std::string& path, const std::string& what) {
  throw Error("'" + path + "': " + what,
              "the file must hold rows of 64 pixels (0 to 16) and a label (0 to 9); get it again");
}

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};

// zlib checks the length and the sum at the end of each gzip member.
std::string read_all(const std::string& path) {
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzopen(path.c_str(), "rb"));
  if (!file) {
    throw UsageError("cannot open '" + path + "': " + std::strerror(errno),
                     "name the digits file with --data FILE");
  }
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const int count = gzread(file.get(), buffer.data(), buffer.size());
    int error = Z_OK;
    const std::string message = gzerror(file.get(), &error);
    if (error == Z_ERRNO) corrupt(path, std::string("cannot be read: ") + std::strerror(errno));
    if (error == Z_BUF_ERROR) corrupt(path, "is truncated");
    if (count < 0 || error != Z_OK) corrupt(path, "is corrupt (" + message + ")");
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kLargestFile) corrupt(path, "holds more than 64 MiB, so it is another file");
  }
}

int64_t parse_cell(const std::string& where, std::string_view what, const std::string& cell,
                   int64_t most) {
  const auto value = parse_whole(cell, 0, most);
  if (value) return *value;
  throw Error(where + "the " + std::string(what) + " is '" + cell.substr(0, 20) +
                  "', not a whole number from 0 to " + std::to_string(most),
              "the file is damaged or is another one; get it again");
}

}  // namespace

std::string find_digits() {
  std::vector<std::string> folders;
  if (const char* chosen = std::getenv("REPRISE_DATA_DIR")) {
    folders.emplace_back(chosen);
  } else {
#ifdef REPRISE_DATA_DIR
    folders.emplace_back(REPRISE_DATA_DIR);
#endif
#ifdef REPRISE_INSTALL_DATA_DIR
    folders.emplace_back(REPRISE_INSTALL_DATA_DIR);
#endif
  }
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / kFileName;
    std::error_code error;
    if (fs::exists(path, error)) return path.string();
  }
  throw UsageError(std::string("the data file ") + kFileName + " is not in " + join(folders),
                   "name it with --data FILE, or its folder with REPRISE_DATA_DIR=DIR");
}

DigitsData load_digits(const std::string& path) {
  std::string text = read_all(path);
  if (text.empty()) corrupt(path, "holds no rows");
  if (text.back() == '\n') text.pop_back();
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  for (const std::string& line : split(text, '\n')) {
    const std::string where = "'" + path + "', row " + std::to_string(labels.size() + 1) + ": ";
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() != kPixels + 1) {
      throw Error(where + std::to_string(cells.size()) + " columns, expected 65",
                  "the file is damaged or is another one; get it again");
    }
    for (int64_t i = 0; i < kPixels; ++i) {
      const auto pixel =
          parse_cell(where, "pixel in column " + std::to_string(i + 1), cells[i], kBrightest);
      pixels.push_back(static_cast<float>(pixel) / kBrightest);
    }
    labels.push_back(parse_cell(where, "label", cells[kPixels], kLastLabel));
  }
  const auto rows = static_cast<int64_t>(labels.size());
  return {at::tensor(pixels).view({rows, kPixels}), at::tensor(labels)};
}

}  // namespace reprise::workloads
