// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>

#include <reprise/plan_report.h>
#include <reprise/report.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/plan_support.h"

// Plans in figures, as text, JSON and curves.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

PlanOptions quick() {
  PlanOptions options;
  options.evaluations = 500;
  return options;
}

struct Planned {
  StepTrace trace = tests::measured_trace("gpt2");
  Plan made = plan(trace, plain_peak() / 2, quick());
  PlanReport report = describe_plan(trace, made);

  int64_t plain_peak() const {
    PlanOptions none;
    none.evaluations = 0;
    none.bound = false;
    return plan(trace, int64_t{1} << 60, none).peak_bytes;
  }
};

const Planned& planned() {
  static const Planned kPlanned;
  return kPlanned;
}

TEST(PlanReport, counts_each_saved_value_once) {
  const auto& [trace, plan, report] = planned();
  const auto with = [&](Decision decision) {
    return std::count(plan.decisions.begin(), plan.decisions.end(), decision);
  };
  EXPECT_EQ(report.kept.count, with(Decision::keep));
  EXPECT_EQ(report.encoded.count, with(Decision::encode));
  EXPECT_EQ(report.recomputed.count, with(Decision::recompute));
  EXPECT_EQ(report.kept.kept_bytes, report.kept.bytes);
  EXPECT_EQ(report.recomputed.kept_bytes, 0);
  EXPECT_GT(report.recomputed.bytes, 0);
}

TEST(PlanReport, replays_add_up_to_the_extra_time) {
  const PlanReport& report = planned().report;
  double milliseconds = 0;
  for (const ReplayedOperator& op : report.replayed) milliseconds += op.milliseconds;
  EXPECT_NEAR(report.plain_ms + milliseconds, report.milliseconds, 1e-6 * report.milliseconds);
  EXPECT_TRUE(
      std::is_sorted(report.replayed.begin(), report.replayed.end(),
                     [](const auto& a, const auto& b) { return a.milliseconds > b.milliseconds; }));
}

TEST(PlanReport, the_table_has_predictions_beside_plain) {
  PlanReport report = planned().report;
  report.workload = "gpt";
  report.base_bytes = 1 << 20;
  report.least = describe_least(planned().trace, least_budget(planned().trace, quick()));
  report.frontier = {{report.plain_peak_bytes, report.plain_peak_bytes, 2.0, 2.0},
                     {report.least.bytes, report.least.bytes, 3.0, 2.5}};
  const std::string text = to_table(report);
  EXPECT_THAT(text, AllOf(HasSubstr("gpt on "), HasSubstr("(50.0 % of plain)"),
                          HasSubstr("peak above base"), HasSubstr("of the best plan"),
                          HasSubstr("run again"), HasSubstr("the least is "),
                          HasSubstr("pinned by " + report.least.pinned_by), Not(HasSubstr("nan"))));
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["kind"], "plan");
  EXPECT_EQ(json["predicted_peak_bytes"], report.peak_bytes);
  EXPECT_EQ(json["frontier"].size(), 2);
  EXPECT_EQ(json["least"]["bytes"], report.least.bytes);
}

TEST(PlanReport, memory_over_time_has_the_peaks_of_both) {
  const auto& [trace, plan, report] = planned();
  const Curve curve = memory_curve(trace, plan);
  const auto highest = [](const CurveSeries& series) {
    const auto by_height = [](const auto& a, const auto& b) { return a.y < b.y; };
    return std::max_element(series.points.begin(), series.points.end(), by_height)->y;
  };
  ASSERT_EQ(curve.series.size(), 2);
  EXPECT_EQ(highest(curve.series[0]), static_cast<double>(plan.plain_peak_bytes));
  EXPECT_EQ(highest(curve.series[1]), static_cast<double>(plan.peak_bytes));
}

TEST(BatchReport, says_where_not_even_one_sample_fits) {
  BatchReport report;
  report.workload = "gpt";
  report.limit_bytes = 10 << 20;
  report.rows = {{"plain", 0, 11 << 20, 1 << 20, std::nullopt}, {"budget", 12, 4, 5, 33.25}};
  EXPECT_THAT(to_table(report), AllOf(HasSubstr("none"), HasSubstr("33.2"), HasSubstr("10.0 MiB")));
  const auto rows = nlohmann::json::parse(to_json(report))["rows"];
  EXPECT_TRUE(rows[0]["samples_per_second"].is_null());
  EXPECT_EQ(rows[1]["samples"], 12);
}

}  // namespace
}  // namespace reprise
