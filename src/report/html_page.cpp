// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reprise/html_report.h>
#include <reprise/version.h>

#include "report/html_parts.h"
#include "report/markup.h"
#include "report/pictures.h"

// The page of a report, and the pictures as files.

namespace reprise {
namespace {

using detail::element;
using detail::Html;

std::string subtitle(const Report& report) {
  const auto text = [](const auto& run) {
    return run.workload + " on " + run.device + ", LibTorch " + run.libtorch + ", " +
           detail::format_count(run.threads) + (run.threads == 1 ? " thread" : " threads");
  };
  if (report.comparison) return text(*report.comparison);
  if (report.training) return text(*report.training);
  if (report.profile) return text(*report.profile);
  return "";
}

Html cards(const Report& report) {
  Html all;
  if (report.comparison) all += detail::cards_of(*report.comparison);
  if (report.training) all += detail::cards_of(*report.training);
  if (report.profile) all += detail::cards_of(*report.profile);
  return all.markup.empty() ? all : element("dl", "cards", all);
}

Html notes(const std::vector<std::string>& notes) {
  if (notes.empty()) return {};
  Html items;
  for (const std::string& note : notes) items += element("li", "", note);
  return detail::section("Notes", element("ul", "", items));
}

Html origin(const Report& report) {
  detail::HtmlTable facts(
      {{"", detail::HtmlTable::Kind::words}, {"", detail::HtmlTable::Kind::words}});
  for (const Fact& fact : report.machine) {
    facts.add_row({detail::text(fact.name), detail::text(fact.value)});
  }
  Html content;
  if (!report.command.empty()) content += element("code", "", report.command);
  if (!report.machine.empty()) content += facts.html();
  return content.markup.empty() ? content : detail::section("Command and machine", content);
}

}  // namespace

std::string to_html(const Report& report) {
  Html content = element("h1", "", report.title);
  const std::string about = subtitle(report);
  if (!about.empty()) content += element("p", "soft", about);
  content += cards(report);
  if (report.comparison) content += detail::sections_of(*report.comparison);
  if (report.training) content += detail::sections_of(*report.training);
  for (const Curve& curve : report.curves) content += detail::section_of(curve);
  if (!report.timelines.empty()) content += detail::section_of(report.timelines);
  if (report.profile) content += detail::section_of(*report.profile);
  content += notes(report.notes);
  content += origin(report);
  content += element("p", "soft foot", std::string("Made by Reprise ") + REPRISE_VERSION + ".");
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n"
         "<link rel=\"icon\" href=\"data:,\">\n" +
         element("title", "", report.title).markup + "<style>\n" +
         std::string(detail::picture_style()) + std::string(detail::page_style()) +
         "</style>\n</head>\n<body>\n" + element("main", "", content).markup + "</body>\n</html>\n";
}

std::string to_svg(const Comparison& comparison) {
  return detail::draw_time_memory(comparison).file_text();
}

std::string to_svg(const Training& training) { return to_svg(detail::loss_curve(training)); }

std::string to_svg(const std::vector<NamedTimeline>& timelines) {
  std::vector<std::string> names;
  std::vector<detail::MemoryView> views;
  for (const NamedTimeline& each : timelines) {
    names.push_back(each.name);
    views.push_back(detail::view_of(each.timeline));
  }
  return detail::draw_memories(names, views).file_text();
}

std::string to_svg(const Curve& curve) { return detail::draw_curve(curve).file_text(); }

}  // namespace reprise
