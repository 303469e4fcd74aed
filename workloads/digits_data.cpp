// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/digits_data.h"

#include <string_view>
#include <vector>

#include <reprise/error.h>

#include <ATen/Functions.h>

#include "workloads/data_file.h"
#include "workloads/words.h"

namespace reprise::workloads {
namespace {

constexpr int64_t kPixels = 64;
constexpr int64_t kBrightest = 16;
constexpr int64_t kLastLabel = 9;

int64_t parse_cell(const std::string& where, std::string_view what, const std::string& cell,
                   int64_t most) {
  const auto value = parse_whole(cell, 0, most);
  if (value) return *value;
  throw Error(where + "the " + std::string(what) + " is '" + cell.substr(0, 20) +
                  "', not a whole number from 0 to " + std::to_string(most),
              "the file is damaged or is another one; get it again");
}

}  // namespace

std::string find_digits() { return find_data_file("digits.csv.gz", "--data"); }

DigitsData load_digits(const std::string& path) {
  const DataFile file = {
      path, "--data",
      "the file must hold rows of 64 pixels (0 to 16) and a label (0 to 9); get it again"};
  std::string text = read_data_file(file);
  if (text.empty()) reject_data_file(file, "holds no rows");
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
