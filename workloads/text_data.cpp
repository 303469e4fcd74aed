// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/text_data.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "workloads/data_file.h"

namespace reprise::workloads {

TextData load_text(const std::optional<std::string>& path, int64_t least) {
  const DataFile file = {path ? *path : find_data_file("text.txt.gz", "--text"), "--text",
                         "give a longer text with --text FILE, or a smaller --context", 1 << 30};
  const std::string text = read_data_file(file);
  if (text.empty()) reject_data_file(file, "is empty");
  const auto bytes = static_cast<int64_t>(text.size());
  const int64_t training = bytes - bytes / 10;
  if (bytes / 10 < least) {
    reject_data_file(file, "its " + std::to_string(bytes) +
                               " bytes are too few: the last tenth is "
                               "kept for validation, and must have " +
                               std::to_string(least));
  }
  return {file.path, text.substr(0, static_cast<std::size_t>(training)),
          text.substr(static_cast<std::size_t>(training))};
}

at::Tensor text_windows(const std::string& text, const std::vector<int64_t>& starts,
                        int64_t length) {
  std::vector<int64_t> bytes;
  for (const int64_t start : starts) {
    for (int64_t i = start; i < start + length; ++i) {
      bytes.push_back(static_cast<unsigned char>(text.at(static_cast<std::size_t>(i))));
    }
  }
  return at::tensor(bytes).view({static_cast<int64_t>(starts.size()), length});
}

std::vector<int64_t> evenly_spaced(int64_t last, int64_t count) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) places.push_back(last * i / std::max<int64_t>(1, count - 1));
  return places;
}

}  // namespace reprise::workloads
