// SPDX-License-Identifier: BSD-3-Clause
#include "report/html_parts.h"
#include "report/markup.h"
#include "report/pictures.h"
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

}  // namespace

Html cards_of(const Training& training) {
  Html cards = card("strategy", training.strategy, "");
  cards += card("loss", significant(training.loss),
                "after " + format_count(training.steps) +
                    (training.steps == 1 ? " step" : " steps"));
  if (training.quality) {
    cards += card(training.quality_name, significant(*training.quality), "");
  }
  cards += card("largest peak", format_bytes(training.total_peak_bytes),
                format_bytes(training.peak_bytes) + " above base");
  cards += card("time", format_milliseconds(training.seconds * 1000), "all steps together");
  cards += card("parameters", format_count(training.parameters), "");
  return cards;
}

Curve loss_curve(const Training& training) {
  return curve_of(training, "loss", Unit::number, [](const TrainingStep& step) { return step.loss; });
}

Html sections_of(const Training& training) {
  const Curve peaks = curve_of(training, "peak", Unit::bytes, [](const TrainingStep& step) {
    return static_cast<double>(step.total_peak_bytes);
  });
  return section("Loss", figure(loss_curve(training))) +
         section("Peak memory of each step",
                 element("p", "soft", "All live bytes, the base included.") + figure(peaks) +
                     log_of(training));
}

Html section_of(const Curve& curve) {
  return section(curve.title.empty() ? curve.y_title : curve.title, figure(curve));
}

}  // namespace reprise::detail
