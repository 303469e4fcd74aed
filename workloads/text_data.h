// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

// A text as bytes, in two parts: the first nine tenths to learn from, the last to be judged by.

namespace reprise::workloads {

// It stays outside of what LibTorch allocates, and batches are made by hand: so they have values
// also where a model is looked at by shape alone.
struct TextData {
  std::string path;
  std::string training;
  std::string validation;
};

/// Reads a text, compressed or not; without a path the one that comes along. Throws UsageError
/// where it cannot be opened, and Error where it is damaged, or where a part has fewer than `least`
/// bytes.
TextData load_text(const std::optional<std::string>& path, int64_t least);

/// Windows of `length` bytes that begin at `starts`, one a row, as int64.
at::Tensor text_windows(const std::string& text, const std::vector<int64_t>& starts,
                        int64_t length);

/// Random numbers that are the same on every machine.
class TextDraws {
 public:
  explicit TextDraws(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t end) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(end));
  }
  double share() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  ///< in [0, 1)

 private:
  std::mt19937_64 engine_;
};

/// `count` whole numbers from 0 to `last`, as evenly spaced as can be.
std::vector<int64_t> evenly_spaced(int64_t last, int64_t count);

}  // namespace reprise::workloads
