// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/plan_report.h>

#include <nlohmann/json.hpp>

// A plan's figures as JSON, in the order of docs/command.md.

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const PlannedValues& values) {
  return {{"count", values.count}, {"bytes", values.bytes}, {"kept_bytes", values.kept_bytes}};
}

Json json_of(const ReplayedOperator& op) {
  return {{"name", op.name}, {"times", op.times}, {"milliseconds", op.milliseconds}};
}

Json json_of(const FrontierPoint& point) {
  return {{"budget_bytes", point.budget_bytes},
          {"peak_bytes", point.peak_bytes},
          {"milliseconds", point.milliseconds},
          {"bound_ms", point.bound_ms}};
}

Json json_of(const LeastBudgetReport& least) {
  return {{"bytes", least.bytes},
          {"bound_bytes", least.bound_bytes},
          {"milliseconds", least.milliseconds},
          {"pinned_by", least.pinned_by},
          {"live_values", least.live_values},
          {"live_bytes", least.live_bytes}};
}

Json json_of(const std::optional<TracedStore>& store) {
  if (!store) return nullptr;
  return {{"send_bytes_per_second", store->send_bytes_per_us * 1e6},
          {"fetch_bytes_per_second", store->fetch_bytes_per_us * 1e6},
          {"latency_ms", store->latency_us / 1e3},
          {"work_ms_per_MiB", store->work_us_per_byte / 1e3 * 1024 * 1024}};
}

template <class Item>
Json array_of(const std::vector<Item>& items) {
  Json array = Json::array();
  for (const Item& item : items) array.push_back(json_of(item));
  return array;
}

}  // namespace

std::string to_json(const BatchReport& report) {
  Json rows = Json::array();
  for (const BatchRow& row : report.rows) {
    rows.push_back({{"strategy", row.strategy},
                    {"samples", row.samples},
                    {"base_bytes", row.base_bytes},
                    {"peak_bytes", row.peak_bytes},
                    {"samples_per_second",
                     row.samples_per_second ? Json(*row.samples_per_second) : Json(nullptr)}});
  }
  const Json json = {
      {"schema", 1},
      {"kind", "max_batch"},
      {"workload", report.workload},
      {"device", report.device},
      {"libtorch", report.libtorch},
      {"threads", report.threads},
      {"limit_bytes", report.limit_bytes},
      {"measured_at", report.measured_at > 0 ? Json(report.measured_at) : Json(nullptr)},
      {"rows", rows},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_json(const PlanReport& report) {
  const Json json = {
      {"schema", 1},
      {"kind", "plan"},
      {"workload", report.workload},
      {"device", report.device},
      {"libtorch", report.libtorch},
      {"threads", report.threads},
      {"parameters", report.parameters},
      {"batch", report.batch},
      {"meta", report.meta},
      {"base_bytes", report.base_bytes},
      {"budget_bytes", report.budget_bytes},
      {"plain_peak_bytes", report.plain_peak_bytes},
      {"predicted_peak_bytes", report.peak_bytes},
      {"plain_ms", report.plain_ms},
      {"predicted_ms", report.milliseconds},
      {"bound_ms", report.bound_ms},
      {"seed", report.seed},
      {"kept", json_of(report.kept)},
      {"encoded", json_of(report.encoded)},
      {"recomputed", json_of(report.recomputed)},
      {"offloaded", json_of(report.offloaded)},
      {"store", json_of(report.store)},
      {"replayed", array_of(report.replayed)},
      {"frontier", array_of(report.frontier)},
      {"least", json_of(report.least)},
      {"notes", report.notes},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace reprise
