// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/error.h>
#include <reprise/monitor.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// TrainMonitor: figures of a loop, and warnings where memory grows.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kKiB = 1024;

torch::Tensor bytes(int64_t count) { return torch::empty({count}, torch::kByte); }

TEST(TrainMonitor, measures_each_step_by_itself) {
  TrainMonitor monitor;
  for (const int64_t size : {64 * kKiB, 16 * kKiB}) {
    monitor.begin_step();
    bytes(size);
    const MonitoredStep step = monitor.end_step(5);
    EXPECT_EQ(step.peak_bytes, size);
    EXPECT_EQ(step.total_peak_bytes, step.base_bytes + size);
    EXPECT_GT(step.milliseconds, 0);
  }
  monitor.note_loss(0.5);
  monitor.note_quality("accuracy", 0.9);
  const MonitorSummary summary = monitor.summary();
  EXPECT_EQ(summary.steps, 2);
  EXPECT_EQ(summary.peak_bytes, 64 * kKiB);
  EXPECT_GT(summary.samples_per_second, 0);
  EXPECT_EQ(summary.loss, 0.5);
  EXPECT_EQ(summary.qualities.at("accuracy"), 0.9);
  EXPECT_THAT(to_text(summary), AllOf(HasSubstr("2 steps"), HasSubstr("loss 0.5"),
                                      HasSubstr("64.0 KiB above"), HasSubstr("accuracy 0.9")));
}

TEST(TrainMonitor, keeps_the_first_the_last_and_the_best_loss) {
  TrainMonitor monitor;
  for (const double loss : {3.0, 1.0, 2.0}) {
    monitor.begin_step();
    monitor.end_step();
    monitor.note_loss(loss);
  }
  const MonitorSummary summary = monitor.summary();
  EXPECT_EQ(summary.first_loss, 3.0);
  EXPECT_EQ(summary.loss, 2.0);
  EXPECT_EQ(summary.best_loss, 1.0);
}

TEST(TrainMonitor, warns_once_of_what_every_step_leaves_behind) {
  TrainMonitor monitor(c10::kCPU, 4);
  std::vector<torch::Tensor> kept;
  for (int step = 0; step < 12; ++step) {
    monitor.begin_step();
    kept.push_back(bytes(kKiB));
    monitor.end_step();
  }
  EXPECT_THAT(monitor.warnings(),
              ElementsAre(AllOf(HasSubstr("live between steps"), HasSubstr("last 4 steps"))));
}

TEST(TrainMonitor, warns_of_peaks_that_grow_while_nothing_stays) {
  TrainMonitor monitor(c10::kCPU, 4);
  for (int64_t step = 1; step <= 12; ++step) {
    monitor.begin_step();
    bytes(step * kKiB);
    monitor.end_step();
  }
  EXPECT_THAT(monitor.warnings(), ElementsAre(HasSubstr("the peak has grown")));
}

TEST(TrainMonitor, is_silent_where_memory_goes_up_and_down) {
  TrainMonitor monitor(c10::kCPU, 4);
  for (int64_t step = 0; step < 30; ++step) {
    monitor.begin_step();
    bytes((1 + step % 4) * kKiB);
    monitor.end_step();
  }
  EXPECT_THAT(monitor.warnings(), IsEmpty());
}

TEST(TrainMonitor, refuses_steps_that_do_not_pair) {
  EXPECT_THROW(TrainMonitor(c10::kCPU, 1), UsageError);
  TrainMonitor monitor;
  EXPECT_THROW(monitor.end_step(), UsageError);
  EXPECT_THROW(monitor.note_loss(1), UsageError);
  monitor.begin_step();
  EXPECT_THROW(monitor.begin_step(), UsageError);
  monitor.abandon_step();
  monitor.begin_step();
  EXPECT_EQ(monitor.end_step().step, 1);
}

}  // namespace
}  // namespace reprise
