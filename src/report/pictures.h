// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <reprise/html_report.h>

#include "report/svg.h"

// The pictures of a report.

namespace reprise::detail {

/// Width of every picture, in units of its view box.
constexpr double kPictureWidth = 720;

/// All rows: peak over plain's against time over plain's.
Svg draw_time_memory(const Comparison& comparison);

/// A value over the steps of a training run.
Svg draw_curve(const Curve& curve);

}  // namespace reprise::detail
