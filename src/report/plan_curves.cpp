// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include <reprise/plan_report.h>

// Plans as curves.

namespace reprise {
namespace {

CurveSeries live_bytes(const std::string& name, const StepTrace& trace,
                       const std::vector<PlanStep>& steps) {
  CurveSeries series{name, {}};
  const Evaluation evaluation = evaluate(trace, steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    series.points.push_back(
        {evaluation.begins_us[i] / 1000, static_cast<double>(evaluation.live_bytes[i])});
  }
  return series;
}

}  // namespace

Curve frontier_curve(const PlanReport& report) {
  Curve curve;
  curve.title = "Time at each budget";
  curve.x_title = "budget above base";
  curve.y_title = "step";
  curve.x_unit = Unit::bytes;
  curve.y_unit = Unit::milliseconds;
  curve.series = {{"planned", {}}, {"bound", {}}};
  for (auto point = report.frontier.rbegin(); point != report.frontier.rend(); ++point) {
    const auto budget = static_cast<double>(point->budget_bytes);
    curve.series[0].points.push_back({budget, point->milliseconds});
    curve.series[1].points.push_back({budget, point->bound_ms});
  }
  return curve;
}

Curve memory_curve(const StepTrace& trace, const Plan& plan) {
  Curve curve;
  curve.title = "Predicted memory over the step";
  curve.x_title = "time";
  curve.y_title = "live above base";
  curve.x_unit = Unit::milliseconds;
  curve.y_unit = Unit::bytes;
  PlanOptions quick;
  quick.evaluations = 0;
  quick.bound = false;
  const Plan plain = reprise::plan(trace, plan.plain_peak_bytes, quick);
  curve.series = {live_bytes("plain", trace, plain.steps),
                  live_bytes("planned", trace, plan.steps)};
  return curve;
}

}  // namespace reprise
