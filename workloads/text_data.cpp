// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/text_data.h"

#include <cstring>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

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
  at::Tensor all = at::empty({bytes}, at::kByte);
  std::memcpy(all.mutable_data_ptr(), text.data(), text.size());
  return {file.path, all.slice(0, 0, training), all.slice(0, training)};
}

at::Tensor text_windows(const at::Tensor& text, const at::Tensor& starts, int64_t length) {
  const at::Tensor places = starts.unsqueeze(1) + at::arange(length, starts.options());
  return text.index({places}).to(at::kLong);
}

}  // namespace reprise::workloads
