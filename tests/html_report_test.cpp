// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <regex>
#include <unistd.h>

#include <reprise/html_report.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report_example.h"

// The HTML report and its pictures: complete, self-contained, well formed whatever names hold, and
// true to the figures.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace reprise::testing;

Report example_report() {
  Report report;
  report.title = "reprise compare gpt";
  report.command = "reprise compare gpt --report gpt.html";
  report.comparison = example_comparison();
  report.training = example_training();
  report.curves = {{"Granularity",
                    "segments",
                    "over plain",
                    Unit::number,
                    Unit::ratio,
                    {{"peak", {{1, 1}, {2, 0.5}}}, {"time", {{1, 1}, {2, 1.25}}}}}};
  report.timelines = {{"plain", example_timeline()}, {"checkpoint", example_timeline(4)}};
  report.profile = example_profile();
  report.notes = {"A note."};
  report.machine = {{"CPU", "a CPU of many cores"}};
  return report;
}

/// What is wrong with the nesting of tags; empty if nothing.
std::string nesting_fault(const std::string& markup) {
  static const std::regex tag("<(/?)([a-z0-9]+)([^<>]*?)(/?)>");
  const std::vector<std::string> alone = {"meta", "link"};
  std::vector<std::string> open;
  std::size_t tags = 0;
  for (std::sregex_iterator at(markup.begin(), markup.end(), tag), end; at != end; ++at, ++tags) {
    const std::string name = (*at)[2];
    if ((*at)[1] == "/") {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
    } else if ((*at)[4] != "/" && std::find(alone.begin(), alone.end(), name) == alone.end()) {
      open.push_back(name);
    }
  }
  if (!open.empty()) return "<" + open.back() + "> stays open";
  // Every other '<' would be text that was not escaped.
  const auto all = static_cast<std::size_t>(std::count(markup.begin(), markup.end(), '<'));
  const std::size_t doctype = markup.starts_with("<!DOCTYPE html>") ? 1 : 0;
  return all == tags + doctype ? "" : "a '<' that begins no tag";
}

bool is_utf8(const std::string& text) {
  static const std::regex valid(
      "(?:[\\x01-\\x7f]|[\\xc2-\\xdf][\\x80-\\xbf]|[\\xe0-\\xef][\\x80-\\xbf]{2}|"
      "[\\xf0-\\xf4][\\x80-\\xbf]{3})*");
  for (std::size_t begin = 0; begin < text.size();) {  // line by line: the library is recursive
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    for (std::size_t at = begin; at < end;) {
      std::size_t stop = std::min(at + 200, end);
      while (stop < end && (static_cast<unsigned char>(text[stop]) & 0xC0) == 0x80) ++stop;
      if (!std::regex_match(text.substr(at, stop - at), valid)) return false;
      at = stop;
    }
    begin = end + 1;
  }
  return true;
}

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(HtmlReport, shows_every_part) {
  const std::string html = to_html(example_report());
  for (const char* part :
       {"<h1>reprise compare gpt</h1>", "Time against memory", "Strategies", "tape:keep_matmuls",
        "1.375\u00D7", "25.0 MiB", "Peak memory of each step", "0.125", "Granularity",
        "Memory over time", "What is alive at the peak", "aten::addmm", "layers.*.linear",
        "Modules", "Two operators have no formula.", "A note.", "Command and machine",
        "reprise compare gpt --report gpt.html", "a CPU of many cores"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(HtmlReport, shows_only_the_parts_that_are_there) {
  Report report;
  report.title = "empty";
  const std::string html = to_html(report);
  EXPECT_EQ(count_of("<section", html), 0);
  EXPECT_EQ(nesting_fault(html), "");
  report.training = example_training();
  EXPECT_THAT(to_html(report), AllOf(HasSubstr("Loss"), Not(HasSubstr("Strategies"))));
}

TEST(HtmlReport, needs_nothing_from_elsewhere) {
  const std::string html = to_html(example_report());
  for (const char* part : {"http:", "https:", "<script", "src=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(part)));
  }
  EXPECT_EQ(count_of("href=", html), count_of("href=\"data:,\"", html));
}

TEST(HtmlReport, is_for_phones_for_paper_for_the_dark_and_for_those_who_cannot_see) {
  const std::string html = to_html(example_report());
  EXPECT_THAT(html, HasSubstr("name=\"viewport\""));
  EXPECT_THAT(html, HasSubstr("@media print"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme:dark"));
  const std::size_t pictures = count_of("<svg viewBox", html);
  EXPECT_EQ(pictures, 6) << "time against memory, loss, peak, a curve, two timelines";
  EXPECT_EQ(count_of("role=\"img\" aria-label=\"", html), pictures);
}

TEST(HtmlReport, escapes_whatever_names_hold) {
  const std::string evil = "<script>alert(1)</script>\"'&\xff\xc3\x1b[2J\n</svg>";
  Report report = example_report();
  report.title = report.command = evil;
  report.comparison->workload = report.comparison->device = evil;
  for (StrategyRow& row : report.comparison->rows) row.strategy = evil;
  report.training->strategy = report.training->quality_name = report.training->sample = evil;
  report.training->warnings = {evil};
  report.curves[0].title = report.curves[0].x_title = report.curves[0].y_title = evil;
  report.curves[0].series[0].name = evil;
  for (NamedTimeline& each : report.timelines) {
    each.name = evil;
    for (MemoryBlock& block : each.timeline.blocks) block.op = block.module = evil;
    for (TimelineMark& mark : each.timeline.marks) mark.name = evil;
  }
  report.profile->workload = evil;
  for (ModuleProfile& module : report.profile->modules) module.path = evil;
  report.profile->notes = report.notes = {evil};
  report.machine = {{evil, evil}};
  for (const std::string& markup :
       {to_html(report), to_svg(*report.comparison), to_svg(report.timelines),
        to_svg(report.curves[0]), to_svg(*report.training)}) {
    EXPECT_THAT(markup, Not(HasSubstr("<script")));
    EXPECT_EQ(nesting_fault(markup), "");
    EXPECT_TRUE(is_utf8(markup));
    EXPECT_THAT(markup, Not(HasSubstr("\x1b")));
  }
}

TEST(HtmlReport, stays_small_and_keeps_the_peak_of_a_long_timeline) {
  TimelineBuilder builder;
  builder.existing(1 << 20, Category::parameters);
  for (int64_t i = 0; i < 100000; ++i) {
    builder.free(builder.make(1 << 10, Category::temporaries, "aten::mul"));
    if (i == 61803) builder.free(builder.make(77 << 20, Category::temporaries, "aten::mm"));
  }
  Report report;
  report.timelines = {{"plain", builder.finish()}};
  const std::string html = to_html(report);
  EXPECT_LT(html.size(), 100'000);
  EXPECT_THAT(html, HasSubstr("peak 78.0 MiB"));
  EXPECT_THAT(html, HasSubstr("temporaries: 77.0 MiB at the peak"));
}

TEST(HtmlReport, says_which_rows_broke_their_promise) {
  Report report = example_report();
  report.comparison->rows[1].grads_bit_equal = false;
  report.comparison->rows[1].max_abs_grad_diff = 0.25;
  const std::string html = to_html(report);
  EXPECT_THAT(html, AllOf(HasSubstr("differ by 0.25"), HasSubstr("class=\"dot bad\"")));
  EXPECT_THAT(html, Not(HasSubstr("bit-identical")));
  EXPECT_THAT(to_html(example_report()), HasSubstr("bit-identical"));
}

TEST(HtmlReport, leaves_times_out_of_a_profile_from_shapes) {
  Report report;
  report.profile = example_profile();
  EXPECT_THAT(to_html(report), HasSubstr(">forward</th>"));
  report.profile->meta = true;
  EXPECT_THAT(to_html(report), AllOf(Not(HasSubstr(">forward</th>")), HasSubstr(">saved</th>")));
}

// All numbers that follow `before` in a text.
std::vector<double> numbers_after(const std::string& before, const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t at = text.find(before); at != std::string::npos;
       at = text.find(before, at + 1)) {
    numbers.push_back(std::stod(text.substr(at + before.size())));
  }
  return numbers;
}

TEST(Pictures, put_each_strategy_at_its_ratios) {
  const std::string svg = to_svg(example_comparison());
  EXPECT_EQ(nesting_fault(svg), "");
  EXPECT_THAT(svg, HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_EQ(count_of("class=\"plain\"", svg), 1);
  const std::vector<double> y = numbers_after(" cy=\"", svg);
  const std::vector<double> x = numbers_after("<circle cx=\"", svg);
  ASSERT_EQ(y.size(), 2);
  // Ratios of 0.25 and 0.75 over the base line at 0.
  EXPECT_NEAR((380 - y[0]) * 3, 380 - y[1], 0.5);
  EXPECT_GT(x[0], x[1]) << "1.375 is right of 1.0125";
}

TEST(Pictures, draw_intervals_where_there_are_some) {
  Comparison comparison = example_comparison();
  EXPECT_EQ(count_of("class=\"interval\"", to_svg(comparison)), 0);
  comparison.rows[1].time_ratio_low = 1.25;
  comparison.rows[1].time_ratio_high = 1.5;
  const std::string svg = to_svg(comparison);
  EXPECT_EQ(count_of("class=\"interval\"", svg), 1);
  EXPECT_THAT(svg, HasSubstr("95 % interval 1.250 to 1.500"));
}

TEST(Pictures, put_timelines_on_the_same_axes) {
  const std::string svg =
      to_svg({{"plain", example_timeline(8)}, {"half", example_timeline(8, 1 << 19)}});
  EXPECT_EQ(nesting_fault(svg), "");
  const std::vector<double> tops = numbers_after(" cy=\"", svg);
  ASSERT_EQ(tops.size(), 2);
  // The panels end at 250 and 540; the peaks are 14.25 and 10.25 MiB.
  EXPECT_NEAR((250 - tops[0]) / (540 - tops[1]), 14.25 / 10.25, 0.01);
}

TEST(Pictures, leave_out_values_that_are_not_finite) {
  Curve curve{"", "step", "loss", Unit::number, Unit::number, {{"", {}}}};
  curve.series[0].points = {{1, 2}, {2, std::nan("")}, {3, 1}, {INFINITY, 1}};
  const std::string svg = to_svg(curve);
  EXPECT_EQ(count_of("<circle", svg), 2);
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(Pictures, survive_empty_results) {
  for (const std::string& svg : {to_svg(Comparison()), to_svg(Training()), to_svg(Curve()),
                                 to_svg(std::vector<NamedTimeline>{{"empty", Timeline()}}),
                                 to_svg(std::vector<NamedTimeline>{})}) {
    EXPECT_EQ(nesting_fault(svg), "");
  }
}

TEST(Machine, is_described_without_its_name) {
  const std::vector<Fact> facts = describe_machine();
  EXPECT_FALSE(facts.empty());
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  for (const Fact& fact : facts) {
    EXPECT_NE(fact.name, "");
    EXPECT_NE(fact.value, "");
    EXPECT_NE(fact.value, host);
  }
}

}  // namespace
}  // namespace reprise
