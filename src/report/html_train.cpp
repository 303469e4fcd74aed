// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <string_view>

#include "report/html_parts.h"
#include "report/markup.h"
#include "report/pictures.h"
#include "report/tables.h"
#include "report/thin.h"

// The part of a page that shows a training run.

namespace reprise::detail {
namespace {

Curve curve_of(const Training& training, const std::string& title, Unit unit,
               double (*value)(const TrainingStep&)) {
  Curve curve{title, "step", title, Unit::number, unit, {{"", {}}}};
  for (const TrainingStep& step : training.log) {
    curve.series[0].points.push_back({static_cast<double>(step.step), value(step)});
  }
  return curve;
}

Html figure(const Curve& curve) {
  return element("figure", "", Html{draw_curve(curve).inline_text()});
}

// A long log is thinned by its loss: the first and last lines, the ups and downs between.
Html log_of(const Training& training) {
  struct Point {
    double y;
  };
  std::vector<Point> losses;
  for (const TrainingStep& step : training.log) losses.push_back({step.loss});
  HtmlTable table({{"step"}, {"loss"}, {"peak"}, {"above base"}, {"time"}});
  for (const std::size_t i : thin_extremes(losses, 50)) {
    const TrainingStep& step = training.log[i];
    table.add_row({text(format_count(step.step)), text(significant(step.loss)),
                   text(format_bytes(step.total_peak_bytes)), text(format_bytes(step.peak_bytes)),
                   text(format_milliseconds(step.step_ms))});
  }
  return element("details", "", element("summary", "", "Logged steps") + table.html());
}

// What the last planned step was predicted to take, and took.
Html budget_of(const Training& training) {
  if (!training.budget) return {};
  const BudgetSummary& budget = *training.budget;
  Html content = element(
      "p", "soft",
      "At most " + format_bytes(budget.peak) + " of " + format_bytes(budget.limit) +
          " were live while it was in force. Steps by a plan: " +
          format_count(budget.planned_steps) + ", without: " + format_count(budget.online_steps) +
          ". Replays took " + format_milliseconds(budget.replay_ms) + " in all.");
  if (budget.planned_steps > 0) {
    HtmlTable table({{"last planned step", HtmlTable::Kind::words},
                     {"plain"},
                     {"predicted"},
                     {"measured"},
                     {"bound"}});
    const Html none = text("\u2013");
    table.add_row({text("peak above base"), text(format_bytes(budget.plain_bytes)),
                   text(format_bytes(budget.predicted_peak)),
                   text(format_bytes(budget.measured_peak)), none});
    table.add_row({text("forward and backward pass"), text(format_milliseconds(budget.plain_ms)),
                   text(format_milliseconds(budget.predicted_ms)),
                   text(format_milliseconds(budget.measured_ms)),
                   text(format_milliseconds(budget.bound_ms))});
    content += table.html();
  }
  return section("Budget", content);
}

// What else was asked of the run.
std::string settings(const Training& training) {
  std::string text = "seed " + std::to_string(training.seed);
  if (training.accumulate > 1) text += ", batch in " + format_count(training.accumulate) + " parts";
  if (!training.autocast.empty()) text += ", autocast " + training.autocast;
  if (training.first_step > 1) text += ", resumed at step " + format_count(training.first_step);
  return text;
}

// How it went on, and what the model has made.
Html outcome_of(const Training& training) {
  Html content;
  if (training.interrupted) {
    content += element("p", "bad", "The run was interrupted before its end.");
  }
  for (const std::string& warning : training.warnings) content += element("p", "bad", warning);
  if (training.skipped_steps > 0) {
    content += element("p", "",
                       format_count(training.skipped_steps) +
                           " steps were left out because a gradient was not finite.");
  }
  Html sections;
  if (!content.markup.empty()) sections += section("Warnings", content);
  if (training.sample.empty()) return sections;
  Html lines;
  std::string_view rest = training.sample;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    lines += text(rest.substr(0, end)) + Html{"\n"};
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return sections + section("Made by the trained model", element("code", "", lines));
}

}  // namespace

Html cards_of(const Training& training) {
  Html cards = card("strategy", training.strategy, settings(training));
  cards +=
      card("loss", significant(training.loss),
           "after " + format_count(training.steps) + (training.steps == 1 ? " step" : " steps"));
  if (training.quality) {
    cards += card(training.quality_name, quality_text(training.quality, training.quality_unit), "");
  }
  cards += card("largest peak", format_bytes(training.total_peak_bytes),
                format_bytes(training.peak_bytes) + " above base");
  cards += card("time", format_milliseconds(training.seconds * 1000),
                format_count(std::llround(training.samples_per_second)) + " samples/s");
  cards += card("parameters", format_count(training.parameters), "");
  return cards;
}

Curve loss_curve(const Training& training) {
  return curve_of(training, "loss", Unit::number,
                  [](const TrainingStep& step) { return step.loss; });
}

Html sections_of(const Training& training) {
  const Curve peaks = curve_of(training, "peak", Unit::bytes, [](const TrainingStep& step) {
    return static_cast<double>(step.total_peak_bytes);
  });
  return section("Loss", figure(loss_curve(training))) + budget_of(training) +
         section("Peak memory of each step",
                 element("p", "soft", "All live bytes, the base included.") + figure(peaks) +
                     log_of(training)) +
         outcome_of(training);
}

Html section_of(const Curve& curve) {
  return section(curve.title.empty() ? curve.y_title : curve.title, figure(curve));
}

}  // namespace reprise::detail
