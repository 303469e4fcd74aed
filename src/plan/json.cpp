// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <limits>
#include <string_view>
#include <type_traits>

#include <reprise/plan.h>

#include <nlohmann/json.hpp>

// Traces and plans as JSON. Fields that have their default are left out of traces. A field that
// changes its meaning raises the version.

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

constexpr std::array<std::string_view, 5> kDecisions = {"none", "keep", "encode", "recompute",
                                                        "offload"};
constexpr std::array<std::string_view, 7> kKinds = {"forward",  "encode", "replay", "decode",
                                                    "backward", "send",   "fetch"};

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <class T>
void add(Json& json, const char* name, const T& value, const T& usual) {
  if (value != usual) json[name] = value;
}

void add(Json& json, const char* name, const std::vector<int32_t>& indices) {
  if (!indices.empty()) json[name] = indices;
}

/// One file of ours, with what it is, for messages.
class Reader {
 public:
  Reader(const std::string& text, const char* kind) : kind_(kind) {
    json_ = Json::parse(text, nullptr, false);
    if (json_.is_discarded()) {
      fail(text.empty() ? "it is empty" : "it is no JSON, or was cut off");
    }
    if (!json_.is_object() || !json_.contains("reprise") || json_["reprise"] != kind) {
      fail("it is something else: its first field would be \"reprise\": \"" + kind_ + "\"");
    }
    const Json version = json_.value("version", Json());
    if (version != kVersion) {
      fail("its version is " + version.dump() + ", and this build reads " +
           std::to_string(kVersion));
    }
  }

  const Json& json() const { return json_; }

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError("not a " + kind_ + " that can be read: " + what,
                     "write it again with this version of Reprise");
  }

  template <class T>
  T get(const Json& object, const char* name) const {
    if (!object.is_object() || !object.contains(name)) {
      fail("a field '" + std::string(name) + "' is missing");
    }
    return as<T>(object[name], name);
  }

  template <class T>
  T get(const Json& object, const char* name, const T& usual) const {
    return object.is_object() && object.contains(name) ? as<T>(object[name], name) : usual;
  }

  const Json& list(const Json& object, const char* name) const {
    if (!object.is_object() || !object.contains(name) || !object[name].is_array()) {
      fail("the list '" + std::string(name) + "' is missing");
    }
    return object[name];
  }

  template <std::size_t N>
  int word(const Json& json, const std::array<std::string_view, N>& words, const char* name) const {
    for (std::size_t i = 0; i < N; ++i) {
      if (json.is_string() && json.get_ref<const std::string&>() == words[i]) {
        return static_cast<int>(i);
      }
    }
    fail("'" + std::string(name) + "' is " + short_text(json));
  }

 private:
  static std::string short_text(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40);
  }

  template <class T>
  T as(const Json& json, const char* name) const {
    bool good = false;
    if constexpr (std::is_same_v<T, bool>) {
      good = json.is_boolean();
    } else if constexpr (std::is_same_v<T, std::string>) {
      good = json.is_string();
    } else if constexpr (std::is_same_v<T, double>) {
      good = json.is_number();
    } else if constexpr (std::is_integral_v<T>) {
      good = in_range<T>(json);
    } else {
      T all;
      if (!json.is_array()) fail("'" + std::string(name) + "' is " + short_text(json));
      for (const Json& item : json) all.push_back(as<typename T::value_type>(item, name));
      return all;
    }
    if (!good) fail("'" + std::string(name) + "' is " + short_text(json));
    return json.get<T>();
  }

  template <class T>
  static bool in_range(const Json& json) {
    if (json.is_number_unsigned()) {
      return json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max());
    }
    return json.is_number_integer() && std::is_signed_v<T> &&
           json.get<int64_t>() >= static_cast<int64_t>(std::numeric_limits<T>::min());
  }

  const std::string kind_;
  Json json_;
};

Json json_of(const TracedValue& value) {
  Json json = {{"bytes", value.bytes}};
  add(json, "held_until", value.held_until, -1);
  add(json, "saved_at", value.saved_at, -1);
  if (value.encoded) {
    json["encoded"] = {{"bytes", value.encoded->bytes},
                       {"encode_us", value.encoded->encode_us},
                       {"decode_us", value.encoded->decode_us}};
  }
  return json;
}

Json json_of(const TracedOperator& op) {
  Json json = {{"name", op.name}, {"microseconds", op.microseconds}};
  add(json, "scratch_bytes", op.scratch_bytes, int64_t{0});
  json["reads"] = op.reads;
  json["makes"] = op.makes;
  add(json, "replayable", op.replayable, true);
  return json;
}

Json json_of(const BackwardEvent& event) {
  Json json = {{"name", event.name}, {"microseconds", event.microseconds}};
  add(json, "scratch_bytes", event.scratch_bytes, int64_t{0});
  json["gradient_bytes"] = event.gradient_bytes;
  json["gradient_bytes_before"] = event.gradient_bytes_before;
  add(json, "belongs_to", event.belongs_to, -1);
  add(json, "unpacks", event.unpacks);
  add(json, "holds", event.holds);
  return json;
}

Json json_of(const TracedStore& store) {
  Json json = {{"send_bytes_per_us", store.send_bytes_per_us},
               {"fetch_bytes_per_us", store.fetch_bytes_per_us}};
  add(json, "latency_us", store.latency_us, 0.0);
  add(json, "least_bytes", store.least_bytes, int64_t{0});
  add(json, "work_us_per_byte", store.work_us_per_byte, 0.0);
  return json;
}

Json json_of(const PlanStep& step) {
  Json json = {{"run", kKinds[static_cast<std::size_t>(step.kind)]}, {"index", step.index}};
  add(json, "leaves", step.leaves);
  add(json, "frees", step.frees);
  add(json, "frees_encoded", step.frees_encoded);
  return json;
}

TracedValue value_from(const Reader& reader, const Json& json) {
  TracedValue value;
  value.bytes = reader.get<int64_t>(json, "bytes");
  value.held_until = reader.get<int32_t>(json, "held_until", -1);
  value.saved_at = reader.get<int32_t>(json, "saved_at", -1);
  if (json.contains("encoded")) {
    const Json& form = json["encoded"];
    value.encoded = {reader.get<int64_t>(form, "bytes"), reader.get<double>(form, "encode_us"),
                     reader.get<double>(form, "decode_us")};
  }
  return value;
}

TracedOperator operator_from(const Reader& reader, const Json& json) {
  TracedOperator op;
  op.name = reader.get<std::string>(json, "name");
  op.microseconds = reader.get<double>(json, "microseconds");
  op.scratch_bytes = reader.get<int64_t>(json, "scratch_bytes", 0);
  op.reads = reader.get<std::vector<int32_t>>(json, "reads");
  op.makes = reader.get<std::vector<int32_t>>(json, "makes");
  op.replayable = reader.get<bool>(json, "replayable", true);
  return op;
}

BackwardEvent event_from(const Reader& reader, const Json& json) {
  BackwardEvent event;
  event.name = reader.get<std::string>(json, "name");
  event.microseconds = reader.get<double>(json, "microseconds");
  event.scratch_bytes = reader.get<int64_t>(json, "scratch_bytes", 0);
  event.gradient_bytes = reader.get<int64_t>(json, "gradient_bytes");
  event.gradient_bytes_before = reader.get<int64_t>(json, "gradient_bytes_before");
  event.belongs_to = reader.get<int32_t>(json, "belongs_to", -1);
  event.unpacks = reader.get<std::vector<int32_t>>(json, "unpacks", {});
  event.holds = reader.get<std::vector<int32_t>>(json, "holds", {});
  return event;
}

TracedStore store_from(const Reader& reader, const Json& json) {
  TracedStore store;
  store.send_bytes_per_us = reader.get<double>(json, "send_bytes_per_us");
  store.fetch_bytes_per_us = reader.get<double>(json, "fetch_bytes_per_us");
  store.latency_us = reader.get<double>(json, "latency_us", 0.0);
  store.least_bytes = reader.get<int64_t>(json, "least_bytes", int64_t{0});
  store.work_us_per_byte = reader.get<double>(json, "work_us_per_byte", 0.0);
  return store;
}

PlanStep step_from(const Reader& reader, const Json& json) {
  PlanStep step;
  step.kind = static_cast<PlanStep::Kind>(
      reader.word(json.is_object() ? json.value("run", Json()) : Json(), kKinds, "run"));
  step.index = reader.get<int32_t>(json, "index");
  step.leaves = reader.get<std::vector<int32_t>>(json, "leaves", {});
  step.frees = reader.get<std::vector<int32_t>>(json, "frees", {});
  step.frees_encoded = reader.get<std::vector<int32_t>>(json, "frees_encoded", {});
  return step;
}

template <class T>
Json array_of(const std::vector<T>& items) {
  Json array = Json::array();
  for (const T& item : items) array.push_back(json_of(item));
  return array;
}

}  // namespace

std::string to_json(const StepTrace& trace) {
  Json json = {{"reprise", "trace"},
               {"version", kVersion},
               {"values", array_of(trace.values)},
               {"operators", array_of(trace.operators)},
               {"events", array_of(trace.events)}};
  if (trace.store) json["store"] = json_of(*trace.store);
  return text_of(json);
}

std::string to_json(const Plan& plan) {
  Json decisions = Json::array();
  for (Decision decision : plan.decisions) {
    decisions.push_back(kDecisions[static_cast<std::size_t>(decision)]);
  }
  return text_of({{"reprise", "plan"},
                  {"version", kVersion},
                  {"key", plan.key},
                  {"measurement", plan.measurement},
                  {"budget_bytes", plan.budget_bytes},
                  {"seed", plan.seed},
                  {"peak_bytes", plan.peak_bytes},
                  {"microseconds", plan.microseconds},
                  {"plain_peak_bytes", plan.plain_peak_bytes},
                  {"plain_microseconds", plan.plain_microseconds},
                  {"bound_microseconds", plan.bound_microseconds},
                  {"looseness", plan.looseness()},
                  {"decisions", decisions},
                  {"steps", array_of(plan.steps)}});
}

StepTrace trace_from_json(const std::string& text) {
  const Reader reader(text, "trace");
  StepTrace trace;
  for (const Json& json : reader.list(reader.json(), "values")) {
    trace.values.push_back(value_from(reader, json));
  }
  for (const Json& json : reader.list(reader.json(), "operators")) {
    trace.operators.push_back(operator_from(reader, json));
  }
  for (const Json& json : reader.list(reader.json(), "events")) {
    trace.events.push_back(event_from(reader, json));
  }
  if (reader.json().contains("store")) trace.store = store_from(reader, reader.json()["store"]);
  check_trace(trace);
  return trace;
}

Plan plan_from_json(const std::string& text) {
  const Reader reader(text, "plan");
  const Json& json = reader.json();
  Plan plan;
  plan.key = reader.get<std::string>(json, "key");
  plan.measurement = reader.get<std::string>(json, "measurement");
  plan.budget_bytes = reader.get<int64_t>(json, "budget_bytes");
  plan.seed = reader.get<uint64_t>(json, "seed");
  plan.peak_bytes = reader.get<int64_t>(json, "peak_bytes");
  plan.microseconds = reader.get<double>(json, "microseconds");
  plan.plain_peak_bytes = reader.get<int64_t>(json, "plain_peak_bytes");
  plan.plain_microseconds = reader.get<double>(json, "plain_microseconds");
  plan.bound_microseconds = reader.get<double>(json, "bound_microseconds");
  for (const Json& decision : reader.list(json, "decisions")) {
    plan.decisions.push_back(static_cast<Decision>(reader.word(decision, kDecisions, "decisions")));
  }
  for (const Json& step : reader.list(json, "steps")) {
    plan.steps.push_back(step_from(reader, step));
  }
  return plan;
}

}  // namespace reprise
