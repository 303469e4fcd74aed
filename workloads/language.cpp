// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/language.h"

#include <algorithm>
#include <utility>

#include "workloads/schedule.h"

namespace reprise::workloads {

LanguageWorkload::LanguageWorkload(std::string name, const WorkloadOptions& options,
                                   const Defaults& defaults)
    : Workload(std::move(name), options),
      batch_(options.batch.value_or(defaults.batch)),
      context_(options.context.value_or(kDefaultContext)),
      schedule_(options.schedule.value_or(kScheduleSteps)),
      weight_decay_(defaults.weight_decay),
      text_(load_text(options.text, defaults.least_text)),
      sizes_{options.layers.value_or(4), options.width.value_or(256), options.heads.value_or(4),
             options.dropout.value_or(0.1), defaults.norm} {}

std::unique_ptr<torch::optim::Optimizer> LanguageWorkload::make_optimizer() {
  return std::make_unique<torch::optim::AdamW>(
      module().parameters(), torch::optim::AdamWOptions(options().learning_rate.value_or(1e-3))
                                 .weight_decay(weight_decay_));
}

double LanguageWorkload::learning_rate_factor(int64_t step) const {
  return cosine_with_warmup(step, schedule_);
}

std::vector<int64_t> LanguageWorkload::draw_places(TextDraws& draws, int64_t count) const {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < batch_; ++i) places.push_back(draws.below(count));
  return places;
}

std::vector<std::vector<int64_t>> LanguageWorkload::in_batches(
    const std::vector<int64_t>& places) const {
  std::vector<std::vector<int64_t>> batches;
  for (auto begin = places.begin(); begin != places.end();) {
    const auto end = begin + std::min<int64_t>(batch_, places.end() - begin);
    batches.emplace_back(begin, end);
    begin = end;
  }
  return batches;
}

}  // namespace reprise::workloads
