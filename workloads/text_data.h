// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

// A text as bytes, in two parts: the first nine tenths to learn from, the last to be judged by.

namespace reprise::workloads {

struct TextData {
  std::string path;
  at::Tensor training;    ///< uint8
  at::Tensor validation;  ///< uint8
};

/// Reads a text, compressed or not; without a path the one that comes along. Throws UsageError
/// where it cannot be opened, and Error where it is damaged, or where a part has fewer than `least`
/// bytes.
TextData load_text(const std::optional<std::string>& path, int64_t least);

/// Windows of `length` bytes that begin at `starts`, one a row, as int64.
at::Tensor text_windows(const at::Tensor& text, const at::Tensor& starts, int64_t length);

}  // namespace reprise::workloads
