// SPDX-License-Identifier: BSD-3-Clause
#include <limits>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"
#include "workloads/workload.h"

// The profile of a step: figures that can be counted by hand, sums that must agree with the meter,
// and shapes alone against the real run.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::leaf;
using testing::message_of;
using ::testing::Not;
using torch::Tensor;
using workloads::Workload;

const ModuleProfile& module_at(const Profile& profile, const std::string& path) {
  for (const ModuleProfile& module : profile.modules) {
    if (module.path == path) return module;
  }
  throw std::runtime_error("no module " + path);
}

ProfileOptions quick() { return ProfileOptions().warmup(0).steps(1); }

std::unique_ptr<Workload> make(const std::string& name, int64_t layers = 2) {
  workloads::WorkloadOptions options;
  if (name != "digits") {
    options.layers = layers;
    options.width = 32;
    options.batch = 4;
    options.context = 16;
    options.dropout = 0.1;
  }
  return workloads::make_workload(name, options);
}

Profile profile_of(Workload& workload, const ProfileOptions& options = quick()) {
  const auto plain = workloads::parse_strategy("plain");
  const workloads::Batch batch = workload.batch(0);
  torch::manual_seed(1);
  return profile_step(
      ModulePaths(workload.module()), [&] { return workload.run(plain, batch).loss; }, options);
}

// Two layers: 10 rows of 8 numbers to 6, ReLU, to 4, and the sum.
class Small final : public torch::nn::Module {
 public:
  Small()
      : first(register_module("first", torch::nn::Linear(8, 6))),
        last(register_module("last", torch::nn::Linear(6, 4))) {}
  Tensor forward(const Tensor& x) { return last(torch::relu(first(x))); }
  torch::nn::Linear first, last;
};

TEST(Profile, counts_a_small_model_as_one_does_by_hand) {
  Small model;
  const Tensor x = leaf({10, 8});
  const Profile profile = profile_step(
      ModulePaths(model, "net"), [&] { return model.forward(x).sum(); }, quick().name("small"));
  EXPECT_EQ(profile.workload, "small");
  EXPECT_EQ(profile.device, "cpu");
  EXPECT_EQ(profile.steps, 1);
  EXPECT_FALSE(profile.meta);

  const ModuleFigures& first = module_at(profile, "net.first").own;
  EXPECT_EQ(first.operators, 3);  // t, addmm, relu
  EXPECT_EQ(first.parameters, 8 * 6 + 6);
  EXPECT_EQ(first.output_bytes, 2 * 10 * 6 * 4);
  EXPECT_EQ(first.saved_bytes, 10 * 6 * 4);  // what ReLU returned, saved twice
  EXPECT_EQ(first.forward_flops, 2 * 10 * 8 * 6);
  EXPECT_EQ(first.backward_flops, 2 * (2 * 10 * 8 * 6));  // of the input and of the weight
  const ModuleFigures& last = module_at(profile, "net.last").own;
  EXPECT_EQ(last.operators, 3);  // t, addmm, sum
  EXPECT_EQ(last.output_bytes, 10 * 4 * 4 + 4);
  EXPECT_EQ(last.saved_bytes, 0);
  EXPECT_EQ(last.forward_flops, 2 * 10 * 6 * 4);

  std::vector<std::string> paths;
  for (const ModuleProfile& module : profile.modules) paths.push_back(module.path);
  EXPECT_THAT(paths, ::testing::ElementsAre("", "net", "net.first", "net.last"));
  const ModuleProfile& root = profile.modules.front();
  EXPECT_EQ(root.total.parameters, 8 * 6 + 6 + 6 * 4 + 4);
  EXPECT_EQ(root.total.saved_bytes, profile.saved_bytes);
  EXPECT_DOUBLE_EQ(root.time_share, 1);
  EXPECT_EQ(profile.held_bytes, profile.saved_bytes + 4);  // the loss
}

TEST(Profile, lists_each_saved_tensor_once) {
  Small model;
  const Tensor x = leaf({10, 8});
  const Profile profile = profile_step(
      ModulePaths(model), [&] { return model.forward(x).sum(); }, quick());
  std::vector<std::string> lines;
  for (const SavedTensorProfile& line : profile.saved) {
    lines.push_back(line.op + "|" + line.module + "|" + line.saved_by + "|" + line.saved_in + "|" +
                    std::to_string(line.bytes) + "|" + std::to_string(line.held_bytes) +
                    (line.external ? "|external" : ""));
    EXPECT_EQ(line.dtype, "float32");
    EXPECT_EQ(
        std::accumulate(line.shape.begin(), line.shape.end(), int64_t{4}, std::multiplies<>()),
        line.bytes);
  }
  EXPECT_THAT(lines, ::testing::UnorderedElementsAre(
                         "||aten::addmm|first|320|0|external",       // x
                         "|first|aten::addmm|first|192|0|external",  // the weight
                         "aten::relu|first|aten::relu|first|240|240",
                         "aten::relu|first|aten::addmm|last|240|0",
                         "|last|aten::addmm|last|96|0|external"));
}

TEST(Profile, accounts_for_all_that_a_step_holds) {
  for (const char* name : {"blocks", "gpt", "digits"}) {
    SCOPED_TRACE(name);
    const auto workload = make(name);
    const Profile profile = profile_of(*workload, ProfileOptions().warmup(1).steps(2));
    int64_t modules = 0, lines = 0;
    for (const ModuleProfile& module : profile.modules) modules += module.own.saved_bytes;
    for (const SavedTensorProfile& line : profile.saved) lines += line.held_bytes;
    EXPECT_EQ(modules, profile.saved_bytes);
    EXPECT_EQ(lines, profile.saved_bytes);
    EXPECT_EQ(profile.held_bytes - profile.saved_bytes, 4);  // the loss
    EXPECT_GT(profile.peak_bytes, profile.held_bytes);
    EXPECT_EQ(profile.modules.front().total.parameters, workload->parameter_count());
    EXPECT_EQ(profile.notes, std::vector<std::string>());
  }
}

TEST(Profile, times_the_parts_within_the_whole) {
  const auto workload = make("gpt", 3);
  const Profile profile = profile_of(*workload, ProfileOptions().steps(3));
  const ModuleFigures& whole = profile.modules.front().total;
  EXPECT_GT(profile.step_ms, 0);
  EXPECT_EQ(profile.steps, 3);
  EXPECT_GT(whole.forward_ms, 0);
  EXPECT_GT(whole.backward_ms, 0);
  for (const char* path : {"layers.1.attention.qkv", "layers.2.ffn.up", "norm"}) {
    EXPECT_GT(module_at(profile, path).own.forward_ms, 0) << path;
    EXPECT_GT(module_at(profile, path).own.backward_ms, 0) << path;
    EXPECT_TRUE(module_at(profile, path).layer_class.has_value()) << path;
  }
  double share = 0;
  for (const ModuleProfile& module : profile.modules) {
    if (module.depth == 1 || module.depth == 0) share += module.depth == 1 ? module.time_share : 0;
  }
  EXPECT_LE(share, 1 + 1e-9);
  EXPECT_FALSE(profile.modules.front().layer_class.has_value());
}

TEST(Profile, counts_no_time_twice) {
  const auto workload = make("gpt", 3);
  const Profile profile = profile_of(*workload, quick());  // one step, so no medians of parts
  const ModuleFigures& whole = profile.modules.front().total;
  EXPECT_LE(whole.forward_ms, profile.forward_ms);
  EXPECT_LE(whole.backward_ms, profile.backward_ms);
}

TEST(Profile, leaves_gradients_and_random_numbers_as_they_should_be) {
  const auto workload = make("gpt");
  torch::manual_seed(5);
  const Tensor before = at::globalContext().defaultGenerator(torch::kCPU).get_state();
  const auto plain = workloads::parse_strategy("plain");
  const workloads::Batch batch = workload->batch(0);
  std::vector<double> losses;
  profile_step(
      ModulePaths(workload->module()),
      [&] {
        const Tensor loss = workload->run(plain, batch).loss;
        losses.push_back(loss.item<double>());
        return loss;
      },
      ProfileOptions().steps(2));
  EXPECT_EQ(losses.size(), 6U);  // warm-up, a look, and two of each
  for (const double loss : losses) EXPECT_EQ(loss, losses.front());  // the same dropout
  EXPECT_TRUE(bit_equal(at::globalContext().defaultGenerator(torch::kCPU).get_state(), before));
  for (const Tensor& parameter : workload->module().parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(Profile, counts_flops_as_the_field_does) {
  const Tensor x = leaf({2, 3, 9, 9}), weight = leaf({5, 3, 3, 3});
  Profile profile = profile_step(
      {}, [&] { return at::conv2d(x, weight, {}, 2, 1).sum(); }, quick());
  constexpr int64_t kConvolution = 2 * 2 * (5 * 5) * (5 * 3 * 3 * 3);
  EXPECT_EQ(profile.modules.front().own.forward_flops, kConvolution);
  EXPECT_EQ(profile.modules.front().own.backward_flops, 2 * kConvolution);

  const Tensor up = leaf({3, 5, 2, 2});
  profile = profile_step(
      {}, [&] { return at::conv_transpose2d(x, up, {}, 2).sum(); }, quick());
  constexpr int64_t kTransposed = 2 * 2 * (9 * 9) * (3 * 5 * 2 * 2);
  EXPECT_EQ(profile.modules.front().own.forward_flops, kTransposed);
  EXPECT_EQ(profile.modules.front().own.backward_flops, 2 * kTransposed);

  const Tensor q = leaf({2, 4, 16, 8}), k = leaf({2, 4, 16, 8}), v = leaf({2, 4, 16, 8});
  profile = profile_step(
      {}, [&] { return at::scaled_dot_product_attention(q, k, v, {}, 0, true).sum(); }, quick());
  constexpr int64_t kProduct = 2 * 2 * 4 * 16 * 16 * 8;
  EXPECT_EQ(profile.modules.front().own.forward_flops, 2 * kProduct);
  EXPECT_EQ(profile.modules.front().own.backward_flops, 5 * kProduct);

  const Tensor a = leaf({3, 4, 5}), b = leaf({3, 5, 6});
  profile = profile_step(
      {}, [&] { return a.bmm(b).sum(); }, quick());
  EXPECT_EQ(profile.modules.front().own.forward_flops, 2 * 3 * 4 * 5 * 6);
  EXPECT_EQ(profile.modules.front().own.backward_flops, 2 * (2 * 3 * 4 * 5 * 6));
}

TEST(Profile, follows_module_scopes) {
  const Tensor x = leaf({10, 10});
  const Profile profile = profile_step(
      {},
      [&] {
        Tensor y;
        {
          const ModuleScope outer("block");
          const ModuleScope inner("sine");
          y = x.sin();
        }
        return y.sum();
      },
      quick());
  EXPECT_EQ(module_at(profile, "block.sine").own.operators, 1);
  EXPECT_EQ(module_at(profile, "block").total.operators, 1);
  EXPECT_EQ(module_at(profile, "").own.operators, 1);  // sum
  EXPECT_EQ(module_at(profile, "block.sine").depth, 2);
}

// The bytes of a profile, for comparison.
struct Bytes {
  std::map<std::string, ModuleFigures> modules;
  std::vector<SavedTensorProfile> saved;
};

Bytes bytes_of(const Profile& profile) {
  Bytes bytes{{}, profile.saved};
  for (const ModuleProfile& module : profile.modules) {
    ModuleFigures figures = module.own;
    figures.forward_ms = figures.backward_ms = 0;
    bytes.modules[module.path] = figures;
  }
  return bytes;
}

TEST(MetaScope, gives_the_bytes_and_flops_of_the_real_step) {
  for (const char* name : {"blocks", "gpt", "digits"}) {
    SCOPED_TRACE(name);
    const auto workload = make(name);
    const Profile real = profile_of(*workload);
    const int64_t live = Meter().live();
    Profile shapes;
    {
      const MetaScope scope;
      const auto phantom = make(name);
      shapes = profile_of(*phantom);
      EXPECT_THAT(scope.run_operators(), ::testing::IsEmpty());
    }
    EXPECT_EQ(Meter().live(), live);
    EXPECT_TRUE(shapes.meta);
    EXPECT_EQ(shapes.saved_bytes, real.saved_bytes);
    EXPECT_EQ(shapes.notes, std::vector<std::string>());
    const Bytes expected = bytes_of(real), found = bytes_of(shapes);
    ASSERT_EQ(found.saved.size(), expected.saved.size());
    for (std::size_t i = 0; i < found.saved.size(); ++i) {
      EXPECT_EQ(found.saved[i], expected.saved[i])
          << i << ": " << found.saved[i].op << " against " << expected.saved[i].op;
    }
    for (const auto& [path, figures] : expected.modules) {
      const ModuleFigures& other = found.modules.at(path);
      EXPECT_EQ(other.operators, figures.operators) << path;
      EXPECT_EQ(other.output_bytes, figures.output_bytes) << path;
      EXPECT_EQ(other.saved_bytes, figures.saved_bytes) << path;
      EXPECT_EQ(other.forward_flops, figures.forward_flops) << path;
      EXPECT_EQ(other.backward_flops, figures.backward_flops) << path;
      EXPECT_EQ(other.parameters, figures.parameters) << path;
    }
  }
}

TEST(MetaScope, uses_no_memory_and_little_time_for_a_model_that_would_not_fit) {
  workloads::WorkloadOptions options;
  options.layers = 12;
  options.width = 768;
  options.heads = 12;
  options.context = 2048;
  options.batch = 64;
  const int64_t allocated = Meter().stats().allocated_total;
  const auto resident = resident_bytes();
  const MetaScope scope;
  const auto workload = workloads::make_workload("gpt", options);
  const Profile profile = profile_of(*workload);
  EXPECT_GT(profile.saved_bytes, int64_t{64} << 30);
  EXPECT_LT(Meter().stats().allocated_total - allocated, 1 << 20);
  if (resident) {
    EXPECT_LT(*resident_bytes() - *resident, int64_t{64} << 20);
  }
  EXPECT_EQ(profile.step_ms, 0);
}

TEST(MetaScope, runs_what_has_no_shape_function_and_says_so) {
  const auto loss = [](const Tensor& x) {
    return at::adaptive_avg_pool2d(x * 2, {2, 3}).square().sum();
  };
  const Tensor x = leaf({2, 3, 8, 9});
  const Profile real = profile_step(
      {}, [&] { return loss(x); }, quick());
  const MetaScope scope;
  const Tensor phantom = torch::randn({2, 3, 8, 9}, torch::requires_grad());
  const Profile shapes = profile_step(
      {}, [&] { return loss(phantom); }, quick());
  EXPECT_THAT(scope.run_operators(), ::testing::Contains("aten::_adaptive_avg_pool2d"));
  ASSERT_EQ(shapes.notes.size(), 1U);
  EXPECT_THAT(shapes.notes[0], HasSubstr("aten::_adaptive_avg_pool2d"));
  EXPECT_EQ(shapes.saved, real.saved);
  EXPECT_EQ(shapes.modules.front().own.output_bytes, real.modules.front().own.output_bytes);
}

TEST(MetaScope, refuses_what_needs_values) {
  const Tensor real = torch::ones({2});
  const MetaScope scope;
  const Tensor x = torch::randn({3});
  EXPECT_THAT(message_of<Error>([&] { x[0].item(); }), HasSubstr("needs the values"));
  EXPECT_THAT(message_of<Error>([&] { x.sum().item<double>(); }), HasSubstr("\nhint: "));
  EXPECT_THAT(message_of<Error>([&] { x.nonzero(); }), HasSubstr("aten::nonzero"));
  EXPECT_THAT(message_of<Error>([&] { x.masked_select(x > 0); }), HasSubstr("needs the values"));
  EXPECT_EQ((real * 2).sum().item<double>(), 4);  // data from before is there
  EXPECT_EQ((real * x[0]).sizes(), real.sizes());
  EXPECT_THAT(message_of<Error>([&] { x.resize_({5}); }), HasSubstr("changes the size"));
  EXPECT_EQ(x.add_(1).sizes(), x.sizes());
  EXPECT_THAT(message_of<UsageError>([] { const MetaScope second; }), HasSubstr("inside of"));
  EXPECT_THAT(message_of<UsageError>([&] { torch::empty({2}, torch::Device("cuda:0")); }),
              HasSubstr("asked for under a MetaScope"));
  EXPECT_TRUE(MetaScope::active());
}

TEST(Profile, survives_json_exactly) {
  const auto workload = make("gpt");
  Profile profile = profile_of(*workload);
  profile.notes = {"a note with \"quotes\" and \u00e9"};
  EXPECT_EQ(profile_from_json(to_json(profile)), profile);
  profile.step_ms = 1.0 / 3;
  profile.forward_ms = std::numeric_limits<double>::min();
  profile.base_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(profile_from_json(to_json(profile)), profile);
  EXPECT_EQ(profile_from_json(to_json(Profile())), Profile());
}

TEST(Profile, rejects_json_that_is_no_profile) {
  const std::string whole = to_json(profile_of(*make("digits")));
  const auto complaint = [](const std::string& text) {
    return message_of<UsageError>([&] { profile_from_json(text); });
  };
  EXPECT_THAT(complaint(""), HasSubstr("cut off"));
  EXPECT_THAT(complaint(whole.substr(0, whole.size() / 2)),
              AllOf(HasSubstr("is the file cut off?"), HasSubstr("\nhint: ")));
  EXPECT_THAT(complaint("[1, 2]"), HasSubstr("another kind"));
  EXPECT_THAT(complaint("{\"kind\": 3}"), HasSubstr("another kind"));
  EXPECT_THAT(complaint("{\"schema\": 1, \"workload\": \"gpt\"}"), HasSubstr("another kind"));
  EXPECT_THAT(complaint("{\"schema\": 9, \"kind\": \"profile\"}"), HasSubstr("schema is 9"));
  EXPECT_THAT(complaint("{\"schema\": 1, \"kind\": \"profile\"}"),
              HasSubstr("'workload' is missing"));
  const auto replaced = [&](const std::string& old, const std::string& fresh) {
    std::string text = whole;
    text.replace(text.find(old), old.size(), fresh);
    return text;
  };
  EXPECT_THAT(complaint(replaced("\"threads\": ", "\"threads\": 0.5, \"was\": ")),
              HasSubstr("'threads' is not a whole number"));
  EXPECT_THAT(complaint(replaced("\"path\": \"\"", "\"path\": null")),
              HasSubstr("'modules[0].path' is not a text"));
  EXPECT_THAT(complaint(replaced("\"step_ms\": ", "\"step_ms\": null, \"was\": ")),
              HasSubstr("'step_ms' is not a number"));
}

TEST(Profile, is_a_table) {
  const auto workload = make("gpt");
  const Profile profile = profile_of(*workload, quick().name("gpt"));
  const std::string tree = to_table(profile);
  EXPECT_THAT(tree, AllOf(HasSubstr("gpt on cpu, LibTorch "), HasSubstr("medians of 1 step\n"),
                          HasSubstr("\n  layers "), HasSubstr("\n    0 "), HasSubstr("\n(all) "),
                          HasSubstr("-heavy"), Not(HasSubstr("saved tensor"))));
  ProfileTableOptions options;
  options.depth = 1;
  EXPECT_THAT(to_table(profile, options),
              AllOf(HasSubstr("\n  layers "), Not(HasSubstr("\n    0 "))));
  options = {};
  options.top = 3;
  options.saved = true;
  const std::string top = to_table(profile, options);
  EXPECT_THAT(top, HasSubstr("saved tensor"));
  // The two lines about the run, a blank one, heading and three rows; twice, with a blank between.
  EXPECT_EQ(std::count(top.begin(), top.end(), '\n'), 3 + 4 + 1 + 4);
  Profile shapes = profile;
  shapes.meta = true;
  EXPECT_THAT(to_table(shapes), AllOf(HasSubstr("from shapes alone"), Not(HasSubstr(" ms"))));
}

TEST(Profile, has_a_table_of_the_peak) {
  const auto workload = make("gpt");
  Ledger ledger(LedgerOptions().module(workload->module()));
  const auto loss = workload->run(workloads::parse_strategy("plain"), workload->batch(0)).loss;
  ledger.mark("backward");
  loss.backward();
  const std::string table = peak_table(ledger.stop(), 3);
  EXPECT_THAT(table, AllOf(HasSubstr("parameters"), HasSubstr("saved activations"),
                           HasSubstr("resident memory of the process"), HasSubstr("largest blocks"),
                           HasSubstr("aten::")));
}

TEST(Profile, rejects_steps_that_cannot_be_profiled) {
  const Tensor x = leaf({3});
  const auto complaint = [](const std::function<Tensor()>& forward, const ProfileOptions& options) {
    return message_of<UsageError>([&] { profile_step({}, forward, options); });
  };
  EXPECT_THAT(complaint([&] { return x * 2; }, quick()), HasSubstr("no loss of one element"));
  EXPECT_THAT(complaint([&] { return x.detach().sum(); }, quick()), HasSubstr("no loss"));
  EXPECT_THAT(complaint([] { return Tensor(); }, quick()), HasSubstr("no loss"));
  EXPECT_THAT(complaint([&] { return x.sum(); }, quick().steps(0)), HasSubstr("got 0 and 0"));
  EXPECT_THAT(complaint([&] { return x.sum(); }, quick().warmup(-1)), HasSubstr("1 and -1"));
  EXPECT_THROW(profile_step(
                   {}, []() -> Tensor { throw std::runtime_error("mine"); }, quick()),
               std::runtime_error);
}

}  // namespace
}  // namespace reprise
