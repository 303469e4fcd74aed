// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace reprise::detail {

/// Warns through LibTorch's own channel, so that its handlers see it.
void warn(const std::string& message);

/// The same, but once in the process for each `about`.
void warn_once(const std::string& about, const std::string& message);

}  // namespace reprise::detail
