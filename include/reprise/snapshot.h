// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <reprise/export.h>
#include <reprise/html_report.h>

namespace reprise {

/// Memory over time for PyTorch's own viewers, https://docs.pytorch.org/memory_viz and
/// torch/cuda/_memory_viz.py: a pickle that holds what torch.cuda.memory._snapshot() returns. Each
/// timeline is one of its devices, in this order. Sizes and order of the events are the recorded
/// ones; what was there before the recording is allocated first, at time 0. Addresses are not the
/// real ones: blocks are laid out one beside the other, so that the viewers can tell them apart. As
/// frames, from the inside out, an event has the operator, each module around it, and the phase of
/// the step; as its category that of the ledger.
REPRISE_API std::string to_snapshot(const std::vector<NamedTimeline>& timelines);

}  // namespace reprise
