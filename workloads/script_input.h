// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

// What a script is fed with: "8x3x224x224", "8x3x224x224:float" or "8x128:int<1000>".

namespace reprise::workloads {

struct ScriptInput {
  std::vector<int64_t> sizes;    ///< the batch first
  std::optional<int64_t> below;  ///< whole numbers from 0 up to, but not including, this one

  /// Normal random numbers, float32, or such whole numbers, int64.
  at::Tensor draw(at::Generator generator) const;
};

/// Throws UsageError for anything else.
ScriptInput parse_script_input(const std::string& text);

}  // namespace reprise::workloads
