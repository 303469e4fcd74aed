// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reprise/html_report.h>

#include "report/memory_view.h"
#include "report/svg.h"

// The pictures of a report.

namespace reprise::detail {

/// Width of every picture, in units of its view box.
constexpr double kPictureWidth = 720;

/// All rows: peak over plain's against time over plain's.
Svg draw_time_memory(const Comparison& comparison);

Svg draw_curve(const Curve& curve);

/// Where the axes end: common to several pictures, so that they compare as they look.
struct MemoryLimits {
  int64_t bytes = 1;
  double end_ms = 0;
};

MemoryLimits limits_of(const std::vector<MemoryView>& views);

/// Those that are ever there, in the order of the stack.
std::vector<Category> categories_of(const std::vector<MemoryView>& views);

/// Class of a category's colour.
std::string category_style(Category category);

/// Memory over time of one step.
Svg draw_memory(const std::string& name, const MemoryView& view, const MemoryLimits& limits);

/// The same of several, one below the other, with names and a legend.
Svg draw_memories(const std::vector<std::string>& names, const std::vector<MemoryView>& views);

}  // namespace reprise::detail
