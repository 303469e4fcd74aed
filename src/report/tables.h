// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include <reprise/report.h>

#include "base/text_table.h"

// The tables of a comparison, and numbers as their cells show them.

namespace reprise::detail {

/// One line for each strategy: bytes, time, and whether its results are plain's.
TextTable strategy_table(const Comparison& comparison);

/// One line for each number of segments: what the cuts cost and save.
TextTable scan_table(const Comparison& comparison);

/// One line for each training run. REQUIRES: train_steps.
TextTable training_table(const Comparison& comparison);

/// One line for each budget, those that are infeasible included: what was predicted beside what was
/// measured.
TextTable budget_table(const Comparison& comparison);

/// Whether it has lines.
bool has_budgets(const Comparison& comparison);

/// Whether a strategy has offloaded something.
bool has_offloads(const Comparison& comparison);

/// "48.0 MiB", or "-" for nothing.
std::string offloaded(const StrategyRow& row);

/// As printf's format of one double says.
std::string number(const char* format, double value);

/// "1.294 to 1.341", or "-" where the steps were too few.
std::string interval_text(const StrategyRow& row);

/// Why a strategy that promises no equal bits does not. REQUIRES: !exact.
std::string inexact_reason(const StrategyRow& row);

/// "identical", or what differs from plain's.
std::string verdict_text(const StrategyRow& row);
Cell verdict_cell(const StrategyRow& row);

/// "identical", or how far the trained weights are from plain's. REQUIRES: training.
Cell weights_cell(const StrategyRow& row);

/// "97.50 %", "1.98 nats/byte", or "-" without one.
std::string quality_text(const std::optional<double>& quality, const std::string& unit);

}  // namespace reprise::detail
