// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <map>
#include <thread>

#include <torch/script.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"
#include "tests/temp_folder.h"
#include "workloads/measured_step.h"

// The ledger: its categories add up to the meter at every event, and each block is what it is.

namespace reprise {
namespace {

using testing::leaf;
using torch::Tensor;
using workloads::Batch;
using workloads::Workload;

/// A step that notes, at every operator, what the meter says after so many events.
class Readings {
 public:
  explicit Readings(const Ledger& ledger) : ledger_(ledger) {}

  void take() { live_[ledger_.events() - 1] = Meter().live(); }

  void expect_equal(const Timeline& timeline) const {
    const std::vector<CategoryBytes> all = timeline.all();
    ASSERT_EQ(all.size(), timeline.events.size() + 1);
    for (const auto& [event, bytes] : live_) {
      EXPECT_EQ(all[static_cast<std::size_t>(event + 1)].total(), bytes) << "event " << event;
      EXPECT_EQ(timeline.at(event), all[static_cast<std::size_t>(event + 1)]);
    }
  }

  std::size_t size() const { return live_.size(); }

 private:
  const Ledger& ledger_;
  std::map<int64_t, int64_t> live_;
};

std::unique_ptr<Workload> small(const std::string& name) {
  workloads::WorkloadOptions options;
  if (name != "digits") {
    options.layers = 2;
    options.width = 32;
    options.batch = 4;
    options.context = 16;
    options.dropout = 0.1;
  }
  return workloads::make_workload(name, options);
}

LedgerOptions parts_of(Workload& workload, torch::optim::Optimizer* optimizer = nullptr) {
  LedgerOptions options;
  options.module(workload.module());
  if (optimizer != nullptr) options.optimizer(*optimizer);
  return options;
}

/// Readings between the parts of a step and, in the backward pass, at each parameter's gradient.
struct Recorded {
  Timeline timeline;
  std::size_t readings = 0;
};

Recorded record(Workload& workload, const std::string& strategy) {
  const auto optimizer = std::make_unique<torch::optim::Adam>(workload.module().parameters());
  Recorded recorded;
  for (int step = 0; step < 2; ++step) {  // the second finds the optimizer's state there
    Ledger ledger(parts_of(workload, optimizer.get()));
    Readings readings(ledger);
    ledger.mark("data");
    Batch batch = workload.batch(step);
    readings.take();
    ledger.mark("forward");
    auto result = workload.run(workloads::parse_strategy(strategy), batch);
    readings.take();
    result.loss.register_hook([&](const Tensor&) { readings.take(); });
    for (Tensor& parameter : workload.module().parameters()) {
      parameter.register_hook([&](const Tensor&) { readings.take(); });
    }
    ledger.mark("backward");
    result.loss.backward();
    readings.take();
    ledger.mark("optimizer");
    optimizer->step();
    readings.take();
    optimizer->zero_grad();
    readings.take();
    result = {};
    batch = {};
    EXPECT_EQ(ledger.now().total(), Meter().live());
    recorded.timeline = ledger.stop();
    readings.expect_equal(recorded.timeline);
    recorded.readings = readings.size();
    EXPECT_EQ(
        recorded.timeline.at(static_cast<int64_t>(recorded.timeline.events.size()) - 1).total(),
        Meter().live());
    for (Tensor& parameter : workload.module().parameters()) {
      auto& hooks = torch::autograd::impl::hooks(parameter);
      hooks.clear();
    }
  }
  return recorded;
}

TEST(Ledger, adds_up_to_the_meter_at_every_event_under_any_strategy) {
  for (const char* name : {"blocks", "gpt", "digits"}) {
    for (const char* strategy : {"plain", "checkpoint", "tape:full"}) {
      SCOPED_TRACE(std::string(name) + " " + strategy);
      const auto workload = small(name);
      const Recorded recorded = record(*workload, strategy);
      EXPECT_GT(recorded.readings, 4U);
      const CategoryBytes peak = recorded.timeline.peak();
      EXPECT_LT(peak[Category::other] * 100, peak.total());
      EXPECT_GT(peak[Category::parameters], 0);
      EXPECT_GT(peak[Category::saved], 0);
      EXPECT_GT(peak[Category::optimizer_state], 0);
      EXPECT_EQ(peak[Category::buffers], 0);
      int64_t replayed = 0, gradients = 0;
      for (const CategoryBytes& bytes : recorded.timeline.all()) {
        replayed = std::max(replayed, bytes[Category::replayed]);
        gradients = std::max(gradients, bytes[Category::gradients]);
        for (const int64_t each : bytes.bytes) EXPECT_GE(each, 0);
      }
      EXPECT_EQ(replayed > 0, std::string(strategy) != "plain");
      EXPECT_EQ(gradients, workload->parameter_count() * 4 +
                               (std::string(name) == "blocks" ? 4 * 16 * 32 * 4 : 0));
    }
  }
}

// With buffers, convolutions, padding, several tensors between layers, a module that is a file.
TEST(Ledger, leaves_next_to_nothing_unnamed_in_the_other_workloads) {
  const tests::TempFolder folder;
  torch::jit::Module module("m");
  module.register_parameter("weight", torch::rand({64, 64}).requires_grad_(),
                            /*is_buffer=*/false);
  module.define("def forward(self, x):\n  return torch.relu(x.matmul(self.weight))\n");
  module.save(folder.path("m.pt"));
  workloads::WorkloadOptions text, pictures, script;
  text.layers = 2;
  text.width = 32;
  text.batch = 4;
  text.context = 32;
  pictures.size = 32;
  pictures.batch = 2;
  script.input = "256x64";
  for (const auto& [name, options] :
       std::vector<std::pair<std::string, workloads::WorkloadOptions>>{
           {"bert", text},
           {"resnet50", pictures},
           {"unet", pictures},
           {"script:" + folder.path("m.pt"), script}}) {
    for (const char* strategy : {"plain", "checkpoint", "tape:keep_matmuls"}) {
      SCOPED_TRACE(name + " " + strategy);
      const auto workload = workloads::make_workload(name, options);
      const Recorded recorded = record(*workload, strategy);
      const CategoryBytes peak = recorded.timeline.peak();
      // What a workload keeps of its own (a text, in numbers) is there before the step.
      const int64_t before = recorded.timeline.at(0)[Category::other];
      EXPECT_LT((peak[Category::other] - before) * 100, peak.total());
      EXPECT_EQ(peak[Category::buffers] > 0, name == "resnet50");
    }
  }
}

// One linear layer: 100 rows of 8 numbers to 4, and a square. Everything can be counted by hand.
class Linear final : public torch::nn::Module {
 public:
  Linear() : inner(register_module("inner", torch::nn::Linear(8, 4))) {
    register_buffer("steps", torch::zeros({3}, torch::kDouble));
  }
  torch::nn::Linear inner;
};

TEST(Ledger, says_of_each_byte_of_a_small_model_what_it_is) {
  Linear model;
  torch::optim::Adam adam(model.parameters(), torch::optim::AdamOptions(0.1));
  const Tensor input = torch::randn({100, 8});
  Ledger ledger(LedgerOptions().module(model, "net").optimizer(adam).input(input));
  const int64_t other = ledger.now()[Category::other];
  ledger.mark("forward");
  Tensor loss = (model.inner(input) * 2).square().sum();
  ledger.mark("backward");
  const int64_t forward_end = ledger.events() - 1;
  loss.backward();
  const int64_t backward_end = ledger.events() - 1;
  ledger.mark("optimizer");
  adam.step();
  const int64_t step_end = ledger.events() - 1;
  loss = Tensor();
  const Timeline timeline = ledger.stop();

  const auto expect = [&](int64_t event, std::map<Category, int64_t> bytes) {
    const CategoryBytes found = timeline.at(event);
    for (const Category category : all_categories()) {
      const int64_t expected = category == Category::other ? other : bytes[category];
      EXPECT_EQ(found[category], expected) << name_of(category) << " after event " << event;
    }
  };
  constexpr int64_t kParameters = (8 * 4 + 4) * 4, kBuffers = 3 * 8, kInput = 100 * 8 * 4;
  // square() saves its argument; the linear layer saves its input, which is there anyway. The loss
  // is alive, too.
  constexpr int64_t kSaved = 100 * 4 * 4 + 4;
  expect(-1, {{Category::parameters, kParameters},
              {Category::buffers, kBuffers},
              {Category::inputs, kInput}});
  expect(forward_end, {{Category::parameters, kParameters},
                       {Category::buffers, kBuffers},
                       {Category::inputs, kInput},
                       {Category::saved, kSaved}});
  expect(backward_end, {{Category::parameters, kParameters},
                        {Category::gradients, kParameters},
                        {Category::buffers, kBuffers},
                        {Category::inputs, kInput},
                        {Category::saved, 4}});  // the loss
  expect(step_end, {{Category::parameters, kParameters},
                    {Category::gradients, kParameters},
                    {Category::optimizer_state, 2 * kParameters},
                    {Category::buffers, kBuffers},
                    {Category::inputs, kInput},
                    {Category::saved, 4}});

  for (const MemoryBlock& block : timeline.blocks) {
    if (block.category == Category::saved && block.bytes > 4) {
      EXPECT_EQ(block.op, "aten::mul");
      EXPECT_EQ(block.module, "net.inner");
      EXPECT_EQ(block.phase, "forward");
    }
    if (block.category == Category::gradients) {
      EXPECT_EQ(block.module, "net.inner");
    }
  }
  EXPECT_EQ(timeline.marks.front().name, "start");
  EXPECT_EQ(timeline.marks.back().name, "stop");
  EXPECT_EQ(timeline.marks[2].event, forward_end + 1);
}

TEST(Ledger, knows_temporaries_from_what_a_pass_leaves) {
  const Tensor x = leaf({1000});
  Ledger ledger;
  ledger.mark("forward");
  Tensor y = x.sin();
  const int64_t before = ledger.events();
  torch::randn({5000}).sum();  // 20,000 bytes and 4
  Tensor loss = y.square().sum();
  loss.backward();
  const Timeline timeline = ledger.stop();
  int64_t temporary = 0, made = 0;
  for (const MemoryBlock& block : timeline.blocks) {
    made += block.made >= before && block.bytes >= 20000;
    temporary += block.bytes == 20000 && block.category == Category::temporaries;
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(temporary, 1);
  EXPECT_EQ(timeline.at(timeline.marks.back().event - 1)[Category::gradients], 4000);
}

TEST(Ledger, finds_the_largest_first_at_the_peak) {
  Ledger ledger;
  const Tensor small_one = torch::empty({100});
  torch::empty({1000});
  const Tensor large_one = torch::empty({800});
  const Timeline timeline = ledger.stop();
  const int64_t peak = timeline.peak_event();
  const std::vector<int64_t> alive = timeline.alive(peak);
  std::vector<int64_t> made_here;
  for (const int64_t block : alive) {
    const MemoryBlock& each = timeline.blocks[static_cast<std::size_t>(block)];
    if (each.made >= 0) made_here.push_back(each.bytes);
  }
  EXPECT_EQ(made_here, (std::vector<int64_t>{4000, 400}));
  EXPECT_EQ(timeline.peak().total() - timeline.at(-1).total(), 4400);
  for (std::size_t i = 1; i < alive.size(); ++i) {
    EXPECT_GE(timeline.blocks[static_cast<std::size_t>(alive[i - 1])].bytes,
              timeline.blocks[static_cast<std::size_t>(alive[i])].bytes);
  }
}

TEST(Ledger, sees_blocks_of_other_threads_and_blocks_freed_on_them) {
  Tensor moved = torch::empty({123});
  Ledger ledger;
  Tensor mine = torch::empty({321});
  std::thread([&] {
    moved = Tensor();
    mine = Tensor();
    for (int i = 0; i < 100; ++i) torch::empty({1000 + i});
  }).join();
  const Timeline timeline = ledger.stop();
  EXPECT_EQ(timeline.events.size(), 1U + 2U + 200U);
  EXPECT_EQ(timeline.at(202).total(), Meter().live());
  EXPECT_EQ(timeline.at(0).total() - timeline.at(1).total(), 123 * 4);
  EXPECT_EQ(timeline.at(1).total() - timeline.at(2).total(), 321 * 4);
}

TEST(Ledger, keeps_its_sums_while_threads_allocate_at_once) {
  Ledger ledger;
  std::vector<std::thread> threads;
  std::vector<std::vector<Tensor>> left(4);
  for (auto& list : left) {
    threads.emplace_back([&list] {
      for (int i = 0; i < 500; ++i) {
        list.push_back(torch::empty({i + 1}));
        if (i % 3 == 0) list.erase(list.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Timeline timeline = ledger.stop();
  const auto last = static_cast<int64_t>(timeline.events.size()) - 1;
  EXPECT_EQ(timeline.at(last).total(), Meter().live());
  EXPECT_EQ(timeline.events.size(), 4U * (500 + 167));
}

TEST(Ledger, may_end_before_its_blocks_and_is_followed_by_another) {
  Tensor kept;
  {
    Ledger ledger;
    kept = torch::empty({1000});
  }  // without stop()
  Ledger ledger;
  kept = Tensor();  // of the first recording: for this one it was there before
  Timeline timeline = ledger.stop();
  ASSERT_EQ(timeline.events.size(), 1U);
  EXPECT_EQ(timeline.at(-1).total() - timeline.at(0).total(), 4000);
  const MemoryBlock& block = timeline.blocks[static_cast<std::size_t>(timeline.events[0].block)];
  EXPECT_EQ(block.made, -1);
  EXPECT_EQ(block.freed, 0);
  EXPECT_EQ(block.category, Category::other);
}

TEST(Ledger, calls_data_read_by_an_operator_an_input) {
  const Tensor read = torch::randn({50}), unread = torch::randn({60});
  Ledger ledger;
  const int64_t base = ledger.now()[Category::other];
  const Tensor result = read * 2;
  const Timeline timeline = ledger.stop();
  EXPECT_EQ(timeline.at(-1)[Category::inputs], 200);
  EXPECT_EQ(timeline.at(-1)[Category::other], base - 200);
}

TEST(Ledger, changes_no_bit_of_a_step) {
  for (const char* strategy : {"plain", "checkpoint", "tape:keep_matmuls"}) {
    const auto workload = small("gpt");
    const auto parsed = workloads::parse_strategy(strategy);
    workloads::measure_step(*workload, parsed, 3);  // the tape audits its first step
    const auto expected = workloads::measure_step(*workload, parsed, 3);
    Ledger ledger(parts_of(*workload));
    const auto found = workloads::measure_step(*workload, parsed, 3);
    ledger.stop();
    EXPECT_TRUE(workloads::compare_results(found.results, expected.results).bit_equal);
    EXPECT_EQ(found.peak_bytes, expected.peak_bytes);
    EXPECT_EQ(found.held_bytes, expected.held_bytes);
  }
}

TEST(Ledger, rejects_what_cannot_work) {
  {
    const Ledger first;
    EXPECT_THAT(testing::message_of<UsageError>([] { const Ledger second; }),
                ::testing::HasSubstr("while another one records"));
  }
  Ledger ledger;
  std::thread([&] {
    EXPECT_THAT(testing::message_of<UsageError>([&] { ledger.mark("x"); }),
                ::testing::HasSubstr("on another thread"));
  }).join();
  ledger.stop();
  EXPECT_THAT(testing::message_of<UsageError>([&] { ledger.stop(); }),
              ::testing::HasSubstr("after stop()"));
  EXPECT_THROW(Ledger(LedgerOptions().device(torch::kMeta)), UsageError);
}

}  // namespace
}  // namespace reprise
