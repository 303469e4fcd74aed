// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/strategy.h"

#include <reprise/error.h>
#include <reprise/scope.h>
#include <reprise/segments.h>
#include <reprise/store.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// The grammar of strategies, and which layers each one runs again.

namespace reprise::workloads {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Segment> regions_of(const std::string& text, int64_t layers) {
  return regions(parse_strategy(text), layers, make_segments(layers, 1));
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

TEST(StrategyGrammar, reads_every_word_and_keeps_what_was_written) {
  for (const char* text : {"plain",
                           "checkpoint",
                           "sequential:1",
                           "sequential:12",
                           "segments:5",
                           "layers:10,20,30",
                           "layers:4",
                           "layers:0-11",
                           "layers:3-3",
                           "every:2",
                           "every:9223372036854775807",
                           "checkpoint+operators",
                           "segments:5+reentrant+no_rng",
                           "layers:1,2+no_rng",
                           "parts",
                           "parts+operators",
                           "tape:advised",
                           "tape:classes",
                           "decoder",
                           "offload:disk",
                           "offload:host",
                           "offload:disk+compressed",
                           "offload:host+lossy",
                           "hybrid=50%",
                           "hybrid=1.5GiB+compressed",
                           "accumulate:1",
                           "accumulate:16"}) {
    EXPECT_EQ(parse_strategy(text).text, text);
  }
}

TEST(StrategyGrammar, rejects_bad_words_and_numbers_with_the_grammar_as_hint) {
  for (const char* text : {"",
                           " plain",
                           "plain ",
                           "Plain",
                           "plain:",
                           "plain:3",
                           "checkpoint:2",
                           "sequential",
                           "sequential:",
                           "sequential:0",
                           "sequential:-1",
                           "sequential:+1",
                           "sequential:1.5",
                           "sequential:4x",
                           "sequential: 4",
                           "sequential:nan",
                           "sequential:9223372036854775808",
                           "segments:0",
                           "segments:four",
                           "every:0",
                           "every:-2",
                           "every:",
                           "layers:",
                           "layers:0",
                           "layers:1,",
                           "layers:,1",
                           "layers:3,2",
                           "layers:2,2",
                           "layers:-3",
                           "layers:1-",
                           "layers:5-3",
                           "layers:1-2-3",
                           "layers:0-4,5",
                           "layers:a-b",
                           "tape",
                           "parts:2",
                           "accumulate",
                           "accumulate:",
                           "accumulate:0",
                           "accumulate:-4",
                           "accumulate:two",
                           "accumulate:4+no_rng",
                           "offload",
                           "offload=disk",
                           "hybrid",
                           "hybrid:50%",
                           "hybrid=50%+lossy+compressed",
                           "offload:disk+lossy+compressed",
                           ":",
                           ":3"}) {
    const std::string message = message_of([&] { parse_strategy(text); });
    EXPECT_THAT(message, HasSubstr("\nhint: ")) << "'" << text << "'";
    EXPECT_THAT(message, HasSubstr("segments:S")) << "'" << text << "'";
  }
}

TEST(StrategyGrammar, options_of_regions_follow_on_a_plus) {
  EXPECT_EQ(parse_strategy("checkpoint").region.variant(), Variant::non_reentrant);
  EXPECT_EQ(parse_strategy("ffn+operators").region.replay(), Replay::operators);
  const CheckpointOptions region = parse_strategy("segments:5+reentrant+no_rng").region;
  EXPECT_EQ(region.variant(), Variant::reentrant);
  EXPECT_FALSE(region.preserve_rng());
  const auto expect = [](const std::string& text, const std::string& words) {
    const std::string message = message_of([&] { parse_strategy(text); });
    EXPECT_THAT(message, HasSubstr(words)) << message;
    EXPECT_THAT(message, HasSubstr("\nhint: ")) << message;
  };
  expect("plain+operators", "has no regions");
  expect("tape:full+no_rng", "has no regions");
  expect("accumulate:2+reentrant", "has no regions");
  expect("checkpoint+", "unknown option '+'");
  expect("checkpoint+operator", "did you mean 'operators'?");
  expect("checkpoint+no_rng+no_rng", "'+no_rng' stands twice");
  for (const char* text : {"checkpoint+operators+no_rng", "checkpoint+reentrant+operators"}) {
    expect(text, std::string("strategy '") + text + "': these options do not go together");
  }
}

TEST(StrategyGrammar, names_the_nearest_word) {
  EXPECT_THAT(message_of([] { parse_strategy("chekpoint"); }),
              HasSubstr("did you mean 'checkpoint'?"));
  EXPECT_THAT(message_of([] { parse_strategy("sequental:4"); }),
              HasSubstr("did you mean 'sequential'?"));
  EXPECT_THAT(message_of([] { parse_strategy("xyzzy"); }),
              ::testing::Not(HasSubstr("did you mean")));
}

TEST(StrategyStores, are_named_with_their_form) {
  const auto kind = [](const std::string& text) { return parse_strategy(text).store_kind; };
  for (const char* text : {"plain", "checkpoint", "tape:full", "accumulate:2", "budget=50%"}) {
    EXPECT_FALSE(kind(text)) << text;
  }
  EXPECT_EQ(kind("offload:disk")->place, StoreKind::Place::disk);
  EXPECT_EQ(kind("offload:disk")->form, StoreKind::Form::plain);
  EXPECT_EQ(kind("offload:host+compressed")->place, StoreKind::Place::host);
  EXPECT_EQ(kind("offload:host+compressed")->form, StoreKind::Form::compressed);
  EXPECT_TRUE(kind("offload:host+compressed")->exact());
  EXPECT_EQ(kind("offload:disk+lossy")->form, StoreKind::Form::lossy);
  EXPECT_FALSE(kind("offload:disk+lossy")->exact());
  EXPECT_EQ(kind("hybrid=50%")->place, StoreKind::Place::disk);
  EXPECT_EQ(kind("hybrid=50%+compressed")->form, StoreKind::Form::compressed);
  EXPECT_EQ(budget_of(parse_strategy("hybrid=50%+compressed"))->share, 0.5);
  EXPECT_FALSE(stays_online(parse_strategy("hybrid=50%")));
}

TEST(StrategyStores, are_where_policies_offload_to) {
  Strategy strategy = parse_strategy("offload:host");
  const auto layer = [](const torch::Tensor& x) { return x.cos().sin(); };
  const torch::Tensor x = torch::ones({1 << 16}, torch::requires_grad());
  const auto moved = [&] {
    Scope scope(*policy_of(strategy, 2, [] { return LayerClasses(); }));
    run_layers(strategy, {layer, layer}, make_segments(2, 1), x).sum().backward();
    scope.end();
    return scope.summary().offload.moved;
  };
  EXPECT_THAT(message_of([&] { moved(); }), HasSubstr("not to any store"));
  strategy.store = HostStore(1 << 20);
  EXPECT_GT(moved(), 0);
}

TEST(StrategyParts, are_those_of_accumulate_alone) {
  EXPECT_EQ(parts_of(parse_strategy("accumulate:4")), 4);
  EXPECT_EQ(parts_of(parse_strategy("checkpoint")), 1);
  EXPECT_EQ(parts_of(parse_strategy("parts")), 1);
  EXPECT_FALSE(parse_strategy("accumulate:4").is_plain());
}

TEST(StrategyPolicy, asks_for_classes_only_where_it_follows_them) {
  const auto policy = [](const std::string& text, int64_t layers, int& asked) {
    return policy_of(parse_strategy(text), layers, [&asked] {
      ++asked;
      return LayerClasses{{"norm", LayerClass::activation_heavy}};
    });
  };
  int asked = 0;
  for (const char* text : {"tape:full", "tape:every_layer", "tape:keep_matmuls", "tape:advised"}) {
    EXPECT_TRUE(policy(text, 3, asked).has_value()) << text;
    EXPECT_FALSE(needs_classes(parse_strategy(text))) << text;
  }
  for (const char* text : {"plain", "checkpoint", "parts", "accumulate:2"}) {
    EXPECT_FALSE(policy(text, 3, asked).has_value()) << text;
  }
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(needs_classes(parse_strategy("tape:classes")));
  EXPECT_TRUE(policy("tape:classes", 1, asked).has_value());
  EXPECT_EQ(asked, 1);
  EXPECT_THROW(policy("tape:advised", 2, asked), UsageError);
}

TEST(StrategyList, gives_the_commas_of_layers_to_layers) {
  std::vector<std::string> texts;
  for (const Strategy& strategy :
       parse_strategies("plain,checkpoint,layers:10,20,30,every:2,layers:0-3,layers:7,plain")) {
    texts.push_back(strategy.text);
  }
  EXPECT_THAT(texts, ElementsAre("plain", "checkpoint", "layers:10,20,30", "every:2", "layers:0-3",
                                 "layers:7", "plain"));
}

TEST(StrategyList, rejects_empty_entries_and_stray_numbers) {
  for (const char* text :
       {"", ",", "plain,", "plain,,every:2", "plain,5", "every:2,4", "layers:0-3,5", "layers:3,"}) {
    EXPECT_THROW(parse_strategies(text), UsageError) << "'" << text << "'";
  }
}

TEST(StrategyRegions, are_the_checkpointed_segments) {
  EXPECT_THAT(regions_of("plain", 6), IsEmpty());
  EXPECT_THAT(regions_of("checkpoint", 2), ElementsAre(Segment{0, 1}, Segment{1, 2}));
  EXPECT_THAT(regions_of("sequential:3", 7), ElementsAre(Segment{0, 3}, Segment{3, 5}))
      << "the last segment runs plain";
  EXPECT_THAT(regions_of("sequential:1", 7), IsEmpty());
  EXPECT_THAT(regions_of("segments:4", 6), ElementsAre(Segment{0, 4}, Segment{4, 6}));
  EXPECT_THAT(regions_of("layers:2,5", 6),
              ElementsAre(Segment{0, 2}, Segment{2, 5}, Segment{5, 6}));
  EXPECT_THAT(regions_of("layers:2-3", 6), ElementsAre(Segment{2, 3}, Segment{3, 4}));
  EXPECT_THAT(regions_of("every:2", 5), ElementsAre(Segment{1, 2}, Segment{3, 4}));
  EXPECT_THAT(regions_of("parts", 2), ElementsAre(Segment{0, 1}, Segment{1, 2}));
  EXPECT_THAT(regions_of("accumulate:2", 6), IsEmpty());
  EXPECT_THAT(regions_of("offload:disk", 6), IsEmpty());
  EXPECT_THAT(regions_of("tape:classes", 6), IsEmpty());
}

TEST(StrategyRegions, checkpoint_follows_the_blocks) {
  const std::vector<Segment> blocks = {{0, 4}, {4, 6}};
  EXPECT_EQ(regions(parse_strategy("checkpoint"), 6, blocks), blocks);
}

TEST(StrategyRegions, that_do_not_fit_name_both_numbers) {
  for (const auto& [text, number] :
       std::vector<std::pair<std::string, std::string>>{{"sequential:9", "9"},
                                                        {"layers:50", "50"},
                                                        {"layers:2,6", "6"},
                                                        {"layers:0-6", "6"},
                                                        {"every:7", "7"}}) {
    EXPECT_THAT(message_of([&, text = text] { regions_of(text, 6); }),
                ::testing::AllOf(HasSubstr(" " + number + " of a workload of 6 layers"),
                                 HasSubstr("\nhint: ")))
        << text;
  }
}

// Layer i multiplies by i + 1 and counts its calls.
struct CountingLayers {
  std::vector<int> calls;
  std::vector<Layer> layers;
  explicit CountingLayers(int64_t count) : calls(count, 0) {
    for (int64_t i = 0; i < count; ++i) {
      layers.emplace_back([this, i](const torch::Tensor& x) {
        ++calls[i];
        return (x * x.cos()) * static_cast<double>(i + 1);
      });
    }
  }
};

std::vector<int> calls_of(const std::string& text, int64_t count) {
  CountingLayers counting(count);
  const torch::Tensor x = torch::full({3}, 0.5, torch::requires_grad());
  run_layers(parse_strategy(text), counting.layers, make_segments(count, 1), x).sum().backward();
  return counting.calls;
}

TEST(RunLayers, runs_again_what_regions_says) {
  EXPECT_THAT(calls_of("plain", 4), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(calls_of("checkpoint", 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(calls_of("sequential:2", 4), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(calls_of("segments:3", 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(calls_of("layers:1-2", 4), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(calls_of("every:3", 4), ElementsAre(1, 1, 2, 1));
}

TEST(RunLayers, tape_runs_every_layer_once) {
  EXPECT_THAT(calls_of("tape:full", 4), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(calls_of("tape:classes", 4), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(calls_of("accumulate:2", 4), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(calls_of("offload:disk", 4), ElementsAre(1, 1, 1, 1));
}

std::vector<int> part_calls_of(const std::string& text) {
  std::vector<int> calls(2, 0);
  const auto part = [&](int i) {
    return [&calls, i](const torch::Tensor& x) {
      ++calls[static_cast<std::size_t>(i)];
      return x * x.cos();
    };
  };
  const std::vector<LayerPart> parts{{"attention", part(0)}, {"ffn", part(1)}};
  const torch::Tensor x = torch::full({3}, 0.5, torch::requires_grad());
  run_parts(parse_strategy(text), parts, 3, x).sum().backward();
  return calls;
}

TEST(RunParts, runs_again_the_part_that_is_named_or_each) {
  EXPECT_THAT(part_calls_of("plain"), ElementsAre(1, 1));
  EXPECT_THAT(part_calls_of("ffn"), ElementsAre(1, 2));
  EXPECT_THAT(part_calls_of("attention"), ElementsAre(2, 1));
  EXPECT_THAT(part_calls_of("parts"), ElementsAre(2, 2));
}

TEST(RunLayers, refuses_a_strategy_that_does_not_fit_before_it_runs_a_layer) {
  CountingLayers counting(3);
  EXPECT_THROW(run_layers(parse_strategy("sequential:4"), counting.layers, make_segments(3, 1),
                          torch::ones({2})),
               UsageError);
  EXPECT_THAT(counting.calls, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace reprise::workloads
