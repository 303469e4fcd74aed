// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <reprise/html_report.h>

#include "report/html.h"

// The parts of a page, each from one kind of result: cards with the figures that matter first, and
// sections below them.

namespace reprise::detail {

Html cards_of(const Comparison& comparison);
Html cards_of(const Training& training);
Html cards_of(const Profile& profile);

/// The loss over the logged steps: the picture of a training run.
Curve loss_curve(const Training& training);

Html sections_of(const Comparison& comparison);
Html sections_of(const Training& training);
Html section_of(const Curve& curve);
Html section_of(const std::vector<NamedTimeline>& timelines);
Html section_of(const Profile& profile);

}  // namespace reprise::detail
