// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <string>

// The LibTorch that this process has loaded, which need not be the one it was built against.

namespace reprise::workloads {

struct LibtorchVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  std::string text() const;  ///< "2.15.0"
  auto operator<=>(const LibtorchVersion&) const = default;
};

inline constexpr LibtorchVersion kOldestLibtorch = {2, 11, 0};

LibtorchVersion built_against_libtorch();

/// 0.0.0 where the library cannot tell, as those from before 2.8 cannot.
LibtorchVersion loaded_libtorch();

/// Path of the loaded library, or "unknown".
std::string libtorch_path();

/// Throws Error when `version` is below kOldestLibtorch.
void require_libtorch(const LibtorchVersion& version);

}  // namespace reprise::workloads
