// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <reprise/html_report.h>

// Results as tests of reports need them: small ones, and timelines made event by event.

namespace reprise::testing {

/// Builds a timeline; every call is one event, a millisecond after the one before.
class TimelineBuilder {
 public:
  TimelineBuilder() { mark("start"); }

  /// A block that was there before. Returns its index.
  int64_t existing(int64_t bytes, Category category, const std::string& module = "") {
    timeline_.blocks.push_back({bytes, category, -1, -1, "", module, ""});
    return last_block();
  }

  int64_t make(int64_t bytes, Category category, const std::string& op,
               const std::string& module = "") {
    timeline_.blocks.push_back({bytes, category, next_event(), -1, op, module, phase_});
    add(last_block(), true);
    return last_block();
  }

  void free(int64_t block) {
    timeline_.blocks[static_cast<std::size_t>(block)].freed = next_event();
    add(block, false);
  }

  void mark(const std::string& name) {
    phase_ = name;
    timeline_.marks.push_back({name, next_event(), static_cast<double>(next_event()), {}});
  }

  Timeline finish() {
    mark("stop");
    timeline_.device = "cpu";
    return timeline_;
  }

 private:
  int64_t next_event() const { return static_cast<int64_t>(timeline_.events.size()); }
  int64_t last_block() const { return static_cast<int64_t>(timeline_.blocks.size()) - 1; }
  void add(int64_t block, bool made) {
    timeline_.events.push_back({block, made, static_cast<double>(next_event() + 1)});
  }

  Timeline timeline_;
  std::string phase_;
};

/// A step of `layers` layers: parameters, what each layer saves, a temporary in each.
inline Timeline example_timeline(int64_t layers = 8, int64_t saved_bytes = 1 << 20) {
  TimelineBuilder builder;
  builder.existing(4 << 20, Category::parameters, "layers.0");
  builder.existing(1 << 20, Category::inputs);
  builder.mark("forward");
  std::vector<int64_t> saved;
  for (int64_t i = 0; i < layers; ++i) {
    const std::string module = "layers." + std::to_string(i) + ".linear";
    const int64_t temporary = builder.make(1 << 19, Category::temporaries, "aten::mul", module);
    saved.push_back(builder.make(saved_bytes, Category::saved, "aten::addmm", module));
    builder.free(temporary);
  }
  builder.mark("backward");
  for (int64_t i = layers; i-- > 0;) {
    const std::string module = "layers." + std::to_string(i) + ".linear";
    const int64_t temporary = builder.make(1 << 20, Category::temporaries, "aten::mm", module);
    builder.make(1 << 18, Category::gradients, "aten::mm", module);
    builder.free(saved[static_cast<std::size_t>(i)]);
    builder.free(temporary);
  }
  return builder.finish();
}

inline StrategyRow example_row(const std::string& strategy, double memory, double time) {
  StrategyRow row;
  row.strategy = strategy;
  row.peak_bytes = static_cast<int64_t>(memory * (100 << 20));
  row.held_bytes = row.peak_bytes / 2;
  row.memory_ratio = memory;
  row.step_ms_median = time * 50;
  row.step_ms_min = time * 49;
  row.time_ratio = time;
  row.samples_per_second = 1000 / time;
  row.loss = 2.25;
  return row;
}

inline Comparison example_comparison() {
  Comparison comparison;
  comparison.workload = "gpt";
  comparison.device = "cpu";
  comparison.libtorch = "2.15.0";
  comparison.threads = 2;
  comparison.parameters = 1234567;
  comparison.base_bytes = 5 << 20;
  comparison.steps = 10;
  comparison.rows = {example_row("plain", 1, 1), example_row("checkpoint", 0.25, 1.375),
                     example_row("tape:keep_matmuls", 0.75, 1.0125)};
  return comparison;
}

inline Training example_training() {
  Training training;
  training.workload = "digits";
  training.strategy = "checkpoint";
  training.device = "cpu";
  training.libtorch = "2.15.0";
  training.threads = 1;
  training.parameters = 98765;
  training.steps = 100;
  training.loss = 0.125;
  training.quality = 0.875;
  training.quality_name = "accuracy";
  training.peak_bytes = 3 << 20;
  training.total_peak_bytes = 7 << 20;
  training.seconds = 1.5;
  for (int64_t i = 1; i <= 100; ++i) {
    training.log.push_back({i, 2.5 / static_cast<double>(i), 3 << 20, 7 << 20, 15});
  }
  return training;
}

inline Profile example_profile() {
  Profile profile;
  profile.workload = "gpt";
  profile.device = "cpu";
  profile.libtorch = "2.15.0";
  profile.threads = 2;
  profile.steps = 5;
  profile.step_ms = 50;
  profile.base_bytes = 5 << 20;
  profile.peak_bytes = 12 << 20;
  profile.saved_bytes = 8 << 20;
  ModuleFigures whole;
  whole.forward_ms = 16;
  whole.backward_ms = 34;
  whole.saved_bytes = 8 << 20;
  whole.forward_flops = 1500000000;
  whole.parameters = 1234567;
  ModuleFigures half = whole;
  half.forward_ms = 8;
  half.saved_bytes = 6 << 20;
  profile.modules = {
      {"", 0, {}, whole, 1, 1, std::nullopt},
      {"blocks", 1, {}, half, 0.5, 0.75, LayerClass::light},
      {"blocks.0", 2, half, half, 0.5, 0.75, LayerClass::activation_heavy},
  };
  profile.saved.resize(3);
  profile.notes = {"Two operators have no formula."};
  return profile;
}

}  // namespace reprise::testing
