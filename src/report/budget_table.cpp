// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>

#include "report/markup.h"
#include "report/tables.h"

// Budgets: what their plans predicted, beside what was measured.

namespace reprise::detail {
namespace {

std::string or_dash(bool known, const std::string& text) { return known ? text : "-"; }

// How far from the best plan this one may be.
std::string within(const BudgetSummary& budget) {
  const double above = (budget.predicted_ms - budget.bound_ms) / budget.bound_ms;
  return fixed_number(std::max(0.0, above) * 100, 1) + " %";
}

// Of all steps that were looked at, warm-up included.
std::string steps_of(const BudgetSummary& budget) {
  const int64_t all = budget.planned_steps + budget.online_steps;
  return or_dash(all > 0,
                 format_count(budget.planned_steps) + " of " + format_count(all) + " steps");
}

}  // namespace

bool has_budgets(const Comparison& comparison) {
  return !comparison.infeasible.empty() ||
         std::any_of(comparison.rows.begin(), comparison.rows.end(),
                     [](const StrategyRow& row) { return row.budget_bytes.has_value(); });
}

TextTable budget_table(const Comparison& comparison) {
  TextTable table({{"budget", Align::left},
                   {"above base"},
                   {"predicted peak"},
                   {"measured"},
                   {"predicted ms"},
                   {"measured"},
                   {"bound ms", Align::right, 1},
                   {"within", Align::right, 3},
                   {"planned", Align::right, 2},
                   {"fits", Align::left}});
  for (const StrategyRow& row : comparison.rows) {
    if (!row.budget_bytes) continue;
    const BudgetSummary budget = row.budget.value_or(BudgetSummary());
    const bool planned = row.predicted_peak_bytes.has_value();
    const bool fits = row.peak_bytes <= *row.budget_bytes;
    table.add_row({row.strategy,
                   format_bytes(*row.budget_bytes),
                   or_dash(planned, format_bytes(row.predicted_peak_bytes.value_or(0))),
                   format_bytes(row.peak_bytes),
                   or_dash(planned, number("%.2f", row.predicted_step_ms.value_or(0))),
                   number("%.2f", row.step_ms_median),
                   or_dash(planned, number("%.2f", budget.bound_ms)),
                   or_dash(planned && budget.bound_ms > 0, within(budget)),
                   steps_of(budget),
                   {fits ? "yes" : "no", fits ? Tone::good : Tone::bad}});
  }
  for (const InfeasibleBudget& budget : comparison.infeasible) {
    const std::string least = budget.least_bytes > 0
                                  ? "infeasible: the least is " + format_bytes(budget.least_bytes)
                                  : std::string("infeasible in its first step, which has no plan");
    table.add_row({budget.strategy, format_bytes(budget.budget_bytes), "-", "-", "-", "-", "-", "-",
                   "-", least});
  }
  return table;
}

}  // namespace reprise::detail
