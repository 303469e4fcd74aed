// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/plan_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <reprise/error.h>

#include <nlohmann/json.hpp>

#include "workloads/libtorch.h"

namespace reprise::workloads {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "plan file";
constexpr int kVersion = 1;
constexpr const char* kHint = "write it again: reprise plan WORKLOAD --budget SIZE -o FILE";

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw UsageError("plan '" + path + "': " + what, kHint);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && file.peek() == std::ifstream::traits_type::eof() && !file.bad()) {
    refuse(path, "it is empty");
  }
  if (!file || !(text << file.rdbuf())) {
    throw UsageError("plan '" + path + "': cannot be read: " + std::strerror(errno),
                     "name a file that reprise plan -o has written");
  }
  return text.str();
}

Json parsed(const std::string& path) {
  Json json = Json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) refuse(path, "it is no JSON, or was cut off");
  if (!json.is_object() || json.value("reprise", Json()) != kKind) {
    refuse(path, "it is no plan file");
  }
  const Json version = json.value("version", Json());
  if (version != kVersion) {
    refuse(path, "its version is " + version.dump() + ", and this build reads " +
                     std::to_string(kVersion));
  }
  return json;
}

template <class T>
T field(const std::string& path, const Json& json, const char* name) {
  try {
    return json.at(name).get<T>();
  } catch (const nlohmann::json::exception&) {
    refuse(path, "its field '" + std::string(name) + "' is missing or something else");
  }
}

// Without the hint: the file gets its own.
std::string complaint(const Error& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

[[noreturn]] void misfit(const std::string& made_for, const std::string& here) {
  throw UsageError("the plan does not fit: it was made for " + made_for + ", and this is " + here,
                   "give the same workload and options as to reprise plan, or plan again");
}

}  // namespace

PlanFile plan_file_of(Workload& workload, const TracedStep& step, const Plan& plan) {
  PlanFile file;
  file.setting = workload.model_setting();
  file.parameters = workload.parameter_count();
  file.batch = workload.samples_per_batch();
  file.libtorch = loaded_libtorch().text();
  file.device = workload.device().str();
  file.threads = torch::get_num_threads();
  file.base_bytes = step.base_bytes;
  file.trace = step.trace;
  file.plan = plan;
  return file;
}

std::string to_json(const PlanFile& file) {
  const Json json = {
      {"reprise", kKind},
      {"version", kVersion},
      {"setting", file.setting},
      {"parameters", file.parameters},
      {"batch", file.batch},
      {"libtorch", file.libtorch},
      {"device", file.device},
      {"threads", file.threads},
      {"base_bytes", file.base_bytes},
      {"plan", Json::parse(to_json(file.plan))},
      {"trace", Json::parse(to_json(file.trace))},
  };
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

PlanFile read_plan_file(const std::string& path) {
  const Json json = parsed(path);
  PlanFile file;
  file.setting = field<std::string>(path, json, "setting");
  file.parameters = field<int64_t>(path, json, "parameters");
  file.batch = field<int64_t>(path, json, "batch");
  file.libtorch = field<std::string>(path, json, "libtorch");
  file.device = field<std::string>(path, json, "device");
  file.threads = field<int64_t>(path, json, "threads");
  file.base_bytes = field<int64_t>(path, json, "base_bytes");
  try {
    file.plan = plan_from_json(field<Json>(path, json, "plan").dump());
    file.trace = trace_from_json(field<Json>(path, json, "trace").dump());
    check_plan(file.trace, file.plan);
  } catch (const UsageError& error) {
    if (complaint(error).starts_with("plan '")) throw;
    refuse(path, complaint(error));
  }
  return file;
}

std::optional<std::string> require_fit(const PlanFile& file, Workload& workload) {
  const std::string setting = workload.model_setting();
  if (file.setting != setting) misfit("'" + file.setting + "'", "'" + setting + "'");
  const auto require = [](const std::string& what, const auto& made_for, const auto& here) {
    std::ostringstream there, now;
    there << what << made_for;
    now << what << here;
    if (made_for != here) misfit(there.str(), now.str());
  };
  require("a batch of ", file.batch, workload.samples_per_batch());
  require("so many parameters: ", file.parameters, workload.parameter_count());
  require("LibTorch ", file.libtorch, loaded_libtorch().text());
  require("device ", file.device, workload.device().str());
  const int64_t threads = torch::get_num_threads();
  if (file.threads == threads) return std::nullopt;
  return "the plan was made with " + std::to_string(file.threads) + " threads, and here are " +
         std::to_string(threads) + ": its times, and some sizes, are those of other kernels";
}

void require_same_operators(const PlanFile& file, const StepTrace& step) {
  const auto differs = [](const std::string& what) {
    throw UsageError("the plan does not fit: " + what,
                     "the model does something else than when it was planned: plan again");
  };
  const auto& planned = file.trace.operators;
  for (std::size_t i = 0; i < std::min(planned.size(), step.operators.size()); ++i) {
    const TracedOperator &there = planned[i], &here = step.operators[i];
    const std::string place = "operator " + std::to_string(i + 1) + " of the step is " + here.name;
    if (here.name != there.name) differs(place + ", where " + there.name + " was planned");
    if (here.reads != there.reads || here.makes != there.makes) {
      differs(place + ", which reads or makes other values than planned");
    }
    for (const int32_t made : here.makes) {
      const auto value = static_cast<std::size_t>(made);
      if (step.values[value].bytes == file.trace.values[value].bytes) continue;
      differs(place + ", which makes " + std::to_string(step.values[value].bytes) +
              " bytes, where " + std::to_string(file.trace.values[value].bytes) + " were planned");
    }
  }
  if (planned.size() != step.operators.size()) {
    differs("the step has " + std::to_string(step.operators.size()) + " operators, and " +
            std::to_string(planned.size()) + " were planned");
  }
}

}  // namespace reprise::workloads
