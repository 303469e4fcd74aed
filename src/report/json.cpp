// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reprise/report.h>

#include <nlohmann/json.hpp>

// Comparison and Training as JSON, in the order of docs/command.md. The library writes numbers that
// are not finite as null. Fields are only ever added; one that changes its meaning raises `schema`.

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Names that come from the user (a path in a workload's name) may hold any bytes: the writer must
// not throw on what is not UTF-8.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <class Row>
Json array_of(const std::vector<Row>& rows);

Json json_of(const RegionStats& region) {
  return {
      {"name", region.name},
      {"runs", region.runs},
      {"replays", region.replays},
      {"milliseconds", region.milliseconds},
      {"dropped_bytes", region.dropped_known ? Json(region.dropped_bytes) : Json(nullptr)},
      {"preserves_rng", region.preserves_rng},
      {"saves_nothing", region.saves_nothing},
  };
}

Json json_of(const std::optional<BudgetSummary>& budget) {
  if (!budget) return nullptr;
  return {
      {"limit_bytes", budget->limit},
      {"base_bytes", budget->base},
      {"peak_bytes", budget->peak},
      {"forwards", budget->forwards},
      {"drops", budget->drops},
      {"dropped_bytes", budget->dropped_bytes},
      {"replays", budget->replays},
      {"replayed_operators", budget->operators},
      {"replay_ms", budget->replay_ms},
      {"overruns", budget->overruns},
      {"offloaded_bytes", budget->offloaded_bytes},
      {"fetched_bytes", budget->fetched_bytes},
      {"online_steps", budget->online_steps},
      {"planned_steps", budget->planned_steps},
      {"plans", budget->plans},
      {"replans", budget->replans},
      {"predicted_peak_bytes", budget->predicted_peak},
      {"measured_peak_bytes", budget->measured_peak},
      {"predicted_ms", budget->predicted_ms},
      {"measured_ms", budget->measured_ms},
      {"bound_ms", budget->bound_ms},
      {"plain_ms", budget->plain_ms},
      {"plain_peak_bytes", std::max(budget->plain_bytes, budget->plain_peak)},
  };
}

Json json_of(const std::optional<OffloadSummary>& offload) {
  if (!offload) return nullptr;
  return {
      {"seen", offload->seen},
      {"seen_bytes", offload->seen_bytes},
      {"moved", offload->moved},
      {"moved_bytes", offload->moved_bytes},
      {"failed", offload->failed},
      {"skipped_small", offload->skipped_small},
      {"skipped_fraction", offload->skipped_fraction},
      {"skipped_last", offload->skipped_last},
      {"skipped_alive", offload->skipped_alive},
      {"skipped_full", offload->skipped_full},
      {"fetched", offload->fetched},
      {"fetched_bytes", offload->fetched_bytes},
      {"returned", offload->returned},
      {"recomputed", offload->recomputed},
      {"forward_wait_ms", offload->forward_wait_ms},
      {"backward_wait_ms", offload->backward_wait_ms},
      {"send_bandwidth", offload->send_bandwidth},
      {"fetch_bandwidth", offload->fetch_bandwidth},
  };
}

Json json_of(const InfeasibleBudget& budget) {
  return {
      {"strategy", budget.strategy},
      {"budget_bytes", budget.budget_bytes},
      {"least_bytes", budget.least_bytes > 0 ? Json(budget.least_bytes) : Json(nullptr)},
  };
}

Json json_of(const std::optional<TrainingOutcome>& outcome) {
  if (!outcome) return nullptr;
  return {
      {"loss", outcome->loss},
      {"quality", or_null(outcome->quality)},
      {"seconds", outcome->seconds},
      {"peak_bytes", outcome->peak_bytes},
      {"weights_bit_equal", outcome->weights_bit_equal},
      {"max_abs_weight_diff", outcome->max_abs_weight_diff},
  };
}

Json json_of(const StrategyRow& row) {
  return {
      {"strategy", row.strategy},
      {"peak_bytes", row.peak_bytes},
      {"held_bytes", row.held_bytes},
      {"memory_ratio", row.memory_ratio},
      {"rss_peak_bytes", or_null(row.rss_peak_bytes)},
      {"step_ms_median", row.step_ms_median},
      {"step_ms_min", row.step_ms_min},
      {"step_ms_q1", row.step_ms_q1},
      {"step_ms_q3", row.step_ms_q3},
      {"step_ms_max", row.step_ms_max},
      {"outlier_steps", row.outlier_steps},
      {"time_ratio", row.time_ratio},
      {"time_ratio_low", or_null(row.time_ratio_low)},
      {"time_ratio_high", or_null(row.time_ratio_high)},
      {"samples_per_second", row.samples_per_second},
      {"loss", row.loss},
      {"quality", or_null(row.quality)},
      {"exact", row.exact},
      {"grads_bit_equal", row.grads_bit_equal},
      {"max_abs_grad_diff", row.max_abs_grad_diff},
      {"buffers_bit_equal", row.buffers_bit_equal},
      {"segments", or_null(row.segments)},
      {"longest_segment_layers", or_null(row.longest_segment_layers)},
      {"recomputed_ops", row.recomputed_ops},
      {"recomputed_ms", row.recomputed_ms},
      {"offloaded_bytes", row.offloaded_bytes},
      {"rng_preserved", row.rng_preserved},
      {"budget_bytes", or_null(row.budget_bytes)},
      {"predicted_peak_bytes", or_null(row.predicted_peak_bytes)},
      {"predicted_step_ms", or_null(row.predicted_step_ms)},
      {"budget", json_of(row.budget)},
      {"offload", json_of(row.offload)},
      {"regions", array_of(row.regions)},
      {"training", json_of(row.training)},
  };
}

Json json_of(const TrainingStep& step) {
  return {
      {"step", step.step},
      {"loss", step.loss},
      {"peak_bytes", step.peak_bytes},
      {"total_peak_bytes", step.total_peak_bytes},
      {"step_ms", step.step_ms},
      {"learning_rate", step.learning_rate},
  };
}

template <class Row>
Json array_of(const std::vector<Row>& rows) {
  Json array = Json::array();
  for (const Row& row : rows) array.push_back(json_of(row));
  return array;
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  return text_of({
      {"schema", kSchema},
      {"workload", comparison.workload},
      {"device", comparison.device},
      {"libtorch", comparison.libtorch},
      {"threads", comparison.threads},
      {"parameters", comparison.parameters},
      {"base_bytes", comparison.base_bytes},
      {"steps", comparison.steps},
      {"segment_scan", comparison.segment_scan},
      {"train_steps", or_null(comparison.train_steps)},
      {"quality_name", text_or_null(comparison.quality_name)},
      {"quality_unit", text_or_null(comparison.quality_unit)},
      {"rows", array_of(comparison.rows)},
      {"infeasible", array_of(comparison.infeasible)},
  });
}

std::string to_json(const Training& training) {
  return text_of({
      {"schema", kSchema},
      {"workload", training.workload},
      {"strategy", training.strategy},
      {"device", training.device},
      {"libtorch", training.libtorch},
      {"threads", training.threads},
      {"seed", training.seed},
      {"parameters", training.parameters},
      {"max_steps", or_null(training.max_steps)},
      {"until_loss", or_null(training.until_loss)},
      {"log_every", training.log_every},
      {"accumulate", training.accumulate},
      {"autocast", text_or_null(training.autocast)},
      {"first_step", training.first_step},
      {"base_bytes", training.base_bytes},
      {"log", array_of(training.log)},
      {"steps", training.steps},
      {"loss", training.loss},
      {"reached_loss", training.reached_loss},
      {"quality", or_null(training.quality)},
      {"quality_name", text_or_null(training.quality_name)},
      {"quality_unit", text_or_null(training.quality_unit)},
      {"peak_bytes", training.peak_bytes},
      {"total_peak_bytes", training.total_peak_bytes},
      {"seconds", training.seconds},
      {"samples_per_second", training.samples_per_second},
      {"skipped_steps", training.skipped_steps},
      {"interrupted", training.interrupted},
      {"sample", text_or_null(training.sample)},
      {"warnings", training.warnings},
      {"regions", array_of(training.regions)},
      {"budget", json_of(training.budget)},
      {"offload", json_of(training.offload)},
  });
}

}  // namespace reprise
