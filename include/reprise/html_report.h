// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <reprise/export.h>
#include <reprise/ledger.h>
#include <reprise/profile.h>
#include <reprise/report.h>

// A report for people: one HTML file that needs nothing else, with pictures of where the memory
// goes and what it costs to use less; and the pictures by themselves, as SVG. Results as plain data
// come in, text goes out. Any bytes may stand in names: they are escaped, and what is not UTF-8 is
// replaced. All functions may be called from any thread.

namespace reprise {

/// A line of "what: value", such as {"CPU", "..., 2 cores"}.
struct Fact {
  std::string name;
  std::string value;
};

/// A recorded step and the strategy, or whatever else, that it shows.
struct NamedTimeline {
  std::string name;
  Timeline timeline;
};

enum class Unit { number, bytes, milliseconds, ratio };

struct CurvePoint {
  double x = 0;
  double y = 0;
};

struct CurveSeries {
  std::string name;                ///< may be empty where it is the only one
  std::vector<CurvePoint> points;  ///< what is not finite is left out
};

/// Values along a line: the loss over steps, the peak over numbers of segments.
struct Curve {
  std::string title = {};
  std::string x_title = {};
  std::string y_title = {};
  Unit x_unit = Unit::number;
  Unit y_unit = Unit::number;
  std::vector<CurveSeries> series = {};
};

/// What a report shows. Each part may be missing; those that are there come in this order.
struct Report {
  std::string title = {};    ///< also that of the browser's window
  std::string command = {};  ///< the command line that made it
  std::optional<Comparison> comparison = {};
  std::optional<Training> training = {};
  std::vector<Curve> curves = {};
  std::vector<NamedTimeline> timelines = {};  ///< all on the same axes
  std::optional<Profile> profile = {};
  std::vector<std::string> notes = {};
  std::vector<Fact> machine = {};
};

/// What this machine is: CPU, cores, memory, system, instruction set, the date and time. What the
/// system does not tell is left out. Neither its name nor its user's is in it.
REPRISE_API std::vector<Fact> describe_machine();

/// A whole HTML page in UTF-8: no scripts, no fonts, nothing from a network. Timelines are thinned
/// to what a screen shows, their peaks exact.
REPRISE_API std::string to_html(const Report& report);

/// Pictures as SVG files: time against memory, one mark for each row; the loss over the logged
/// steps; memory over time by category, one above the other on the same axes; a curve. They follow
/// the reader's choice of light or dark.
REPRISE_API std::string to_svg(const Comparison& comparison);
REPRISE_API std::string to_svg(const Training& training);
REPRISE_API std::string to_svg(const std::vector<NamedTimeline>& timelines);
REPRISE_API std::string to_svg(const Curve& curve);

}  // namespace reprise
