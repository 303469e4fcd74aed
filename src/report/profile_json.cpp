// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/error.h>
#include <reprise/profile_report.h>

#include <nlohmann/json.hpp>

// A profile as JSON, and back. Fields are only ever added; one that changes its meaning raises
// `schema`.

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

// Each struct lists its fields once, for both directions.

template <class Fields>
void visit(ModuleFigures& figures, Fields&& field) {
  field("operators", figures.operators);
  field("forward_ms", figures.forward_ms);
  field("backward_ms", figures.backward_ms);
  field("output_bytes", figures.output_bytes);
  field("saved_bytes", figures.saved_bytes);
  field("forward_flops", figures.forward_flops);
  field("backward_flops", figures.backward_flops);
  field("parameters", figures.parameters);
}

template <class Fields>
void visit(ModuleProfile& module, Fields&& field) {
  field("path", module.path);
  field("depth", module.depth);
  field("own", module.own);
  field("total", module.total);
  field("time_share", module.time_share);
  field("saved_share", module.saved_share);
  field("layer_class", module.layer_class);
}

template <class Fields>
void visit(SavedTensorProfile& line, Fields&& field) {
  field("shape", line.shape);
  field("dtype", line.dtype);
  field("bytes", line.bytes);
  field("held_bytes", line.held_bytes);
  field("external", line.external);
  field("op", line.op);
  field("module", line.module);
  field("saved_by", line.saved_by);
  field("saved_in", line.saved_in);
}

template <class Fields>
void visit(Profile& profile, Fields&& field) {
  field("workload", profile.workload);
  field("device", profile.device);
  field("libtorch", profile.libtorch);
  field("threads", profile.threads);
  field("steps", profile.steps);
  field("meta", profile.meta);
  field("step_ms", profile.step_ms);
  field("forward_ms", profile.forward_ms);
  field("backward_ms", profile.backward_ms);
  field("base_bytes", profile.base_bytes);
  field("held_bytes", profile.held_bytes);
  field("peak_bytes", profile.peak_bytes);
  field("saved_bytes", profile.saved_bytes);
  field("modules", profile.modules);
  field("saved", profile.saved);
  field("notes", profile.notes);
}

constexpr std::array<std::pair<LayerClass, const char*>, 3> kClasses = {{
    {LayerClass::compute_heavy, "compute_heavy"},
    {LayerClass::activation_heavy, "activation_heavy"},
    {LayerClass::light, "light"},
}};

/// Writes fields into an object.
struct Writer {
  Json& json;

  template <class T>
  void operator()(const char* name, T& value) const {
    json[name] = of(value);
  }

  template <class T>
  static Json of(T& value) {
    if constexpr (requires { visit(value, Writer{std::declval<Json&>()}); }) {
      Json object = Json::object();
      visit(value, Writer{object});
      return object;
    } else {
      return Json(value);
    }
  }
  template <class T>
  static Json of(std::vector<T>& values) {
    Json array = Json::array();
    for (T& value : values) array.push_back(of(value));
    return array;
  }
  static Json of(std::optional<LayerClass>& which) {
    if (!which) return nullptr;
    for (const auto& [value, word] : kClasses) {
      if (value == *which) return word;
    }
    return nullptr;
  }
};

[[noreturn]] void not_a_profile(const std::string& why) {
  throw UsageError("this is not a profile: " + why,
                   "give the file that 'reprise profile --json FILE' wrote");
}

/// Reads them from one; `path` is where it stands, for messages.
struct Reader {
  const Json& json;
  std::string path;

  template <class T>
  void operator()(const char* name, T& value) const {
    const std::string place = path.empty() ? name : path + "." + name;
    if (!json.is_object()) not_a_profile("'" + path + "' is not an object");
    const auto found = json.find(name);
    if (found == json.end()) not_a_profile("'" + place + "' is missing");
    read(*found, value, place);
  }

  static void require(bool fits, const std::string& place, const char* expected) {
    if (!fits) not_a_profile("'" + place + "' is not " + expected);
  }

  template <class T>
  static void read(const Json& from, T& value, const std::string& place) {
    visit(value, Reader{from, place});
  }
  static void read(const Json& from, std::string& value, const std::string& place) {
    require(from.is_string(), place, "a text");
    value = from.get<std::string>();
  }
  static void read(const Json& from, bool& value, const std::string& place) {
    require(from.is_boolean(), place, "true or false");
    value = from.get<bool>();
  }
  static void read(const Json& from, int64_t& value, const std::string& place) {
    const bool fits = from.is_number_integer() &&
                      (!from.is_number_unsigned() || from.get<uint64_t>() <= INT64_MAX);
    require(fits, place, "a whole number");
    value = from.get<int64_t>();
  }
  static void read(const Json& from, double& value, const std::string& place) {
    require(from.is_number(), place, "a number");
    value = from.get<double>();
  }
  static void read(const Json& from, std::optional<LayerClass>& which, const std::string& place) {
    which.reset();
    if (from.is_null()) return;
    for (const auto& [value, word] : kClasses) {
      if (from == word) which = value;
    }
    require(which.has_value(), place, "a class of layers");
  }
  template <class T>
  static void read(const Json& from, std::vector<T>& values, const std::string& place) {
    require(from.is_array(), place, "a list");
    values.resize(from.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      read(from[i], values[i], place + "[" + std::to_string(i) + "]");
    }
  }
};

}  // namespace

std::string to_json(const Profile& profile) {
  Json json = {{"schema", kSchema}, {"kind", "profile"}};
  Profile copy = profile;  // fields are visited for writing, too
  visit(copy, Writer{json});
  // A path of the user's may hold any bytes: the writer must not throw on what is not UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Profile profile_from_json(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    not_a_profile("no JSON from byte " + std::to_string(error.byte) + " on" +
                  (error.byte >= text.size() ? "; is the file cut off?" : ""));
  }
  const auto field = [&](const char* name) {
    return json.is_object() && json.contains(name) ? json[name] : Json();
  };
  if (field("kind") != "profile") not_a_profile("it is JSON of another kind");
  if (field("schema") != kSchema) {
    not_a_profile("its schema is " + field("schema").dump() + ", and " + std::to_string(kSchema) +
                  " is known here");
  }
  Profile profile;
  visit(profile, Reader{json, ""});
  return profile;
}

}  // namespace reprise
