// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

// Feeds reprise/region_report.h; free while no report lives. Thread-safe.

namespace reprise::detail {

void log_region(const std::string& name, std::optional<int64_t> dropped_bytes, bool preserves_rng);
void log_replay(const std::string& name, double milliseconds);
void log_useless_region(const std::string& name);

}  // namespace reprise::detail
