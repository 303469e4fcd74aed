// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <random>
#include <string>

#include <reprise/plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/plan_support.h"

// Traces and plans as files: what is written is read back, what is broken is one clear line.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Plan some_plan(const StepTrace& trace) {
  PlanOptions options;
  options.evaluations = 100;
  return plan(trace, least_budget(trace, options).plan.peak_bytes, options);
}

TEST(PlanJson, BothWays) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const StepTrace trace = tests::random_trace(random, {trial % 2 == 0, true, true, 12});
    const std::string text = to_json(trace);
    const StepTrace read = trace_from_json(text);
    EXPECT_EQ(to_json(read), text);
    EXPECT_EQ(key_of(read), key_of(trace));
    const Plan made = some_plan(trace);
    const Plan again = plan_from_json(to_json(made));
    EXPECT_EQ(again, made);
    EXPECT_NO_THROW(check_plan(read, again));
  }
}

TEST(PlanJson, KeysTellStepsApart) {
  const StepTrace trace = tests::measured_trace("gpt2");
  EXPECT_EQ(key_of(trace).size(), 16U);
  StepTrace other = trace;
  other.values[3].bytes += 1;
  EXPECT_NE(key_of(other), key_of(trace));
  other = trace;
  other.operators[3].name += "_";
  EXPECT_NE(key_of(other), key_of(trace));
  other = trace;
  std::swap(other.events[1].unpacks, other.events[2].unpacks);
  EXPECT_NE(key_of(other), key_of(trace));
  other = trace;  // the same step on another day
  other.operators[3].microseconds *= 2;
  other.operators[3].scratch_bytes += 64;
  other.operators[3].replayable = false;
  other.values[3].held_until = 4;
  other.values[3].saved_at = 5;
  other.values[3].encoded = {8, 1, 1};
  other.events[1].scratch_bytes += 64;
  other.events[1].gradient_bytes += 64;
  other.events[1].gradient_bytes_before += 64;
  other.events[1].holds = {3};
  EXPECT_EQ(key_of(other), key_of(trace));
}

template <class Read>
void expect_refused(const std::string& text, const char* why, Read&& read) {
  try {
    read(text);
    ADD_FAILURE() << why;
  } catch (const UsageError& error) {
    const std::string what = error.what();
    EXPECT_THAT(what, AllOf(HasSubstr(why), HasSubstr("\nhint: ")));
    EXPECT_EQ(std::count(what.begin(), what.end(), '\n'), 1) << what;
  }
}

TEST(PlanJson, WhatIsNoPlanIsOneLine) {
  const StepTrace trace = tests::measured_trace("gpt2");
  const std::string text = to_json(some_plan(trace));
  const auto refused = [](const std::string& t, const char* why) {
    expect_refused(t, why, [](const std::string& x) { return plan_from_json(x); });
  };
  refused("", "it is empty");
  refused("banana", "no JSON, or was cut off");
  refused("[1, 2]", "something else");
  refused("{\"reprise\": \"trace\", \"version\": 1}", "something else");
  refused(to_json(trace), "something else");
  refused("{\"reprise\": \"plan\"}", "its version is null, and this build reads 1");
  refused("{\"reprise\": \"plan\", \"version\": 2}", "its version is 2, and this build reads 1");
  for (std::size_t length = 1; length + 1 < text.size(); length += 97) {
    refused(text.substr(0, length), "cut off");
  }
  const auto edited = [&](auto&& edit) {
    Json json = Json::parse(text);
    edit(json);
    return json.dump();
  };
  refused(edited([](Json& j) { j.erase("key"); }), "a field 'key' is missing");
  refused(edited([](Json& j) { j["peak_bytes"] = "much"; }), "'peak_bytes' is \"much\"");
  refused(edited([](Json& j) { j["seed"] = -1; }), "'seed' is -1");
  refused(edited([](Json& j) { j["steps"] = 5; }), "the list 'steps' is missing");
  refused(edited([](Json& j) { j["steps"][0]["run"] = "fly"; }), "'run' is \"fly\"");
  refused(edited([](Json& j) { j["steps"][0] = 7; }), "'run' is null");
  refused(edited([](Json& j) { j["steps"][0]["index"] = 1e10; }), "'index' is 10000000000.0");
  refused(edited([](Json& j) { j["steps"][0]["index"] = 99999999999; }), "'index' is 99999999999");
  refused(edited([](Json& j) { j["steps"][0]["frees"] = {1, "x"}; }), "'frees' is \"x\"");
  refused(edited([](Json& j) { j["decisions"][0] = "forget"; }), "'decisions' is \"forget\"");
}

TEST(PlanJson, WhatIsNoTraceIsOneLine) {
  const std::string text = to_json(tests::measured_trace("gpt2"));
  const auto refused = [](const std::string& t, const char* why) {
    expect_refused(t, why, [](const std::string& x) { return trace_from_json(x); });
  };
  refused(text.substr(0, text.size() / 2), "cut off");
  const auto edited = [&](auto&& edit) {
    Json json = Json::parse(text);
    edit(json);
    return json.dump();
  };
  refused(edited([](Json& j) { j["values"][0]["bytes"] = -4; }), "value 0 has bytes of -4");
  refused(edited([](Json& j) { j["values"][0] = nullptr; }), "a field 'bytes' is missing");
  refused(edited([](Json& j) { j["values"][0]["encoded"] = 3; }), "a field 'bytes' is missing");
  refused(edited([](Json& j) { j["operators"][0]["reads"] = {900}; }), "names value 900");
  refused(edited([](Json& j) { j["operators"][0]["microseconds"] = nullptr; }),
          "'microseconds' is null");
  refused(edited([](Json& j) { j["events"].push_back(Json::object()); }), "'name' is missing");
}

// A plan that was changed by hand is well-formed, and refused by the evaluator.
TEST(PlanJson, AnEditedPlanDoesNotPassTheCheck) {
  const StepTrace trace = tests::measured_trace("gpt2");
  const Plan made = some_plan(trace);
  Json json = Json::parse(to_json(made));
  json["budget_bytes"] = made.budget_bytes - 1;
  EXPECT_THROW(check_plan(trace, plan_from_json(json.dump())), UsageError);
  json = Json::parse(to_json(made));
  Json& steps = json["steps"];
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i]["run"] != "replay") continue;
    Json without = json;
    without["steps"].erase(i);
    EXPECT_THROW(check_plan(trace, plan_from_json(without.dump())), UsageError);
  }
}

}  // namespace
}  // namespace reprise
