// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/equality.h>
#include <reprise/error.h>

#include <torch/script.h>
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model_workload.h"
#include "tests/temp_folder.h"
#include "workloads/parts.h"
#include "workloads/script.h"

// script:FILE.pt: TorchScript modules of several kinds, under every strategy, and files and inputs
// that do not fit.

namespace reprise::workloads {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::TempFolder;
using torch::Tensor;

class ScriptWorkload : public ::testing::Test {
 protected:
  std::string save(const torch::jit::Module& script) const {
    script.save(folder_.path("net.pt"));
    return name();
  }
  std::string name() const { return "script:" + folder_.path("net.pt"); }

  static WorkloadOptions input(const std::string& text) {
    WorkloadOptions options;
    options.input = text;
    return options;
  }

  static Tensor weight(at::IntArrayRef sizes) {
    return (torch::randn(sizes) * 0.3).detach().requires_grad_();
  }

  TempFolder folder_;
};

// Convolution, batch norm with its buffers, dropout and a branch.
torch::jit::Module convolution(const std::string& returned = "y") {
  torch::jit::Module net("net");
  net.register_parameter("kernel", (torch::randn({4, 3, 3, 3}) * 0.3).requires_grad_(), false);
  net.register_parameter("scale", torch::ones({4}).requires_grad_(), false);
  net.register_buffer("mean", torch::zeros({4}));
  net.register_buffer("var", torch::ones({4}));
  net.register_attribute("training", c10::BoolType::get(), false);
  net.define(R"(
    def forward(self, x):
        x = torch.conv2d(x, self.kernel, None, 1, 1)
        x = torch.batch_norm(x, self.scale, None, self.mean, self.var, self.training, 0.1, 1e-5,
                             False)
        x = torch.dropout(torch.relu(x), 0.2, self.training)
        y = torch.sigmoid(x) * x.tanh() + x
        return )" +
             returned + "\n");
  return net;
}

// Two tanh(x * w) in a row, as torch.jit.script() makes one of a torch.nn.Sequential.
torch::jit::Module sequential() {
  torch::jit::Module net("__torch__.torch.nn.modules.container.Sequential");
  for (const char* number : {"0", "1"}) {
    torch::jit::Module layer(std::string("__torch__.Layer") + number);
    layer.register_parameter("w", (torch::randn({6, 6}) * 0.3).requires_grad_(), false);
    layer.define(
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.tanh(torch.mm(x, self.w))\n");
    net.register_module(number, layer);
  }
  net.define(R"(
    def forward(self, x):
        return getattr(self, "1").forward(getattr(self, "0").forward(x))
)");
  return net;
}

const std::vector<std::string> kStrategies = {"checkpoint", "checkpoint+operators", "tape:full",
                                              "tape:every_layer", "tape:keep_matmuls"};

// One that needs input with a gradient, and so none of whole numbers.
std::vector<std::string> with_reentrant() {
  std::vector<std::string> strategies = kStrategies;
  strategies.push_back("checkpoint+reentrant");
  return strategies;
}

TEST_F(ScriptWorkload, has_the_gradients_and_buffers_of_plain_under_every_strategy) {
  tests::expect_identical_steps(save(convolution()), input("2x3x6x6"), with_reentrant());
}

TEST_F(ScriptWorkload, has_the_gradients_and_buffers_of_plain_with_autocast) {
  WorkloadOptions options = input("2x3x6x6:float");
  options.autocast = c10::kBFloat16;
  tests::expect_identical_steps(save(convolution()), options, kStrategies);
}

TEST_F(ScriptWorkload, draws_equal_input_for_equal_seeds) {
  torch::manual_seed(0);
  save(convolution());
  const auto a = make_workload(name(), input("2x3x6x6"));
  WorkloadOptions other = input("2x3x6x6");
  other.seed = 1;
  const Tensor x = a->batch(3).input;
  EXPECT_TRUE(bit_equal(x, make_workload(name(), input("2x3x6x6"))->batch(3).input));
  EXPECT_FALSE(torch::equal(x, a->batch(4).input));
  EXPECT_FALSE(torch::equal(x, make_workload(name(), other)->batch(3).input));
}

TEST_F(ScriptWorkload, is_trained_with_its_own_tensors) {
  const auto workload = make_workload(save(convolution()), input("4x3x6x6"));
  EXPECT_EQ(workload->name(), name());
  EXPECT_EQ(workload->parameter_count(), 4 * 3 * 9 + 4);
  EXPECT_EQ(workload->module().named_buffers().keys(), (std::vector<std::string>{"mean", "var"}));
  EXPECT_EQ(workload->layer_count(), 1);
  const auto loss = [&] {
    torch::manual_seed(0);
    return workload->run(parse_strategy("plain"), workload->batch(0)).loss;
  };
  const auto optimizer = workload->make_optimizer();
  const double first = loss().item<double>();
  EXPECT_GT(workload->module().buffers()[0].abs().sum().item<double>(), 0) << "the running mean";
  for (int i = 0; i < 10; ++i) {
    optimizer->zero_grad();
    loss().backward();
    optimizer->step();
  }
  EXPECT_LT(loss().item<double>(), first);
  workload->module().eval();
  const Tensor once = workload->run(parse_strategy("plain"), workload->batch(0)).output;
  const Tensor again = workload->run(parse_strategy("plain"), workload->batch(0)).output;
  EXPECT_TRUE(bit_equal(once, again)) << "no dropout in evaluation mode";
}

TEST_F(ScriptWorkload, takes_a_sequential_as_a_chain_of_its_modules) {
  save(sequential());
  const auto workload = make_workload(name(), input("3x6"));
  EXPECT_EQ(workload->layer_count(), 2);
  EXPECT_EQ(workload->module().named_parameters().keys(), (std::vector<std::string>{"0.w", "1.w"}));
  std::vector<std::string> strategies = with_reentrant();
  strategies.insert(strategies.end(), {"sequential:2", "segments:2", "every:2", "layers:0-0"});
  tests::expect_identical_steps(name(), input("3x6"), strategies);
}

TEST_F(ScriptWorkload, gives_a_parameter_of_two_modules_once) {
  const Tensor shared = weight({6, 6});
  torch::jit::Module net("net"), inner("inner");
  inner.register_parameter("w", shared, false);
  inner.define("def forward(self, x):\n  return torch.mm(x, self.w)\n");
  net.register_module("inner", inner);
  net.register_parameter("w", shared, false);
  net.define("def forward(self, x):\n  return torch.mm(self.inner.forward(x), self.w)\n");
  const auto workload = make_workload(save(net), input("3x6"));
  EXPECT_EQ(workload->parameter_count(), 36);
}

TEST_F(ScriptWorkload, adds_up_the_losses_of_all_that_it_returns) {
  const auto value = [&](const std::string& loss) {
    WorkloadOptions options = input("2x3x6x6");
    options.loss = loss;
    const auto workload = make_workload(name(), options);
    torch::manual_seed(0);
    const ForwardResult result = workload->run(parse_strategy("plain"), workload->batch(0));
    return std::make_pair(result.loss.item<double>(), result.output);
  };
  save(convolution("{\"a\": (x, [y, y]), \"b\": (x, [x])}"));
  const auto [sum, output] = value("sum");
  const auto [mean, ignored] = value("mean_square");
  const std::vector<Tensor> parts = output.chunk(5);
  EXPECT_TRUE(bit_equal(parts[1], parts[2]));
  double sums = 0, means = 0;
  for (const Tensor& part : parts) {
    sums += part.sum().item<double>();
    means += part.square().mean().item<double>();
  }
  EXPECT_NEAR(sum, sums, 1e-3);
  EXPECT_NEAR(mean, means, 1e-5);
  tests::expect_identical_steps(name(), input("2x3x6x6"), kStrategies);
}

// Parts of unequal size: 3 and 2.
TEST_F(ScriptWorkload, has_the_same_loss_and_gradients_in_parts) {
  torch::jit::Module net("net");
  net.register_parameter("w", weight({6, 6}), false);
  net.define("def forward(self, x):\n  return torch.mm(x, self.w)\n");
  save(net);
  for (const char* loss : {"sum", "mean_square"}) {
    WorkloadOptions options = input("5x6");
    options.loss = loss;
    const auto workload = make_workload(name(), options);
    const auto run = [&](int64_t parts) {
      workload->module().zero_grad();
      PartsOptions in_parts;
      in_parts.parts = parts;
      const Tensor total =
          run_in_parts(*workload, parse_strategy("plain"), workload->batch(0), in_parts).loss;
      return std::make_pair(total.clone(), workload->module().parameters()[0].grad().clone());
    };
    const auto [whole, gradient] = run(1);
    const auto [in_parts, gradient_in_parts] = run(2);
    EXPECT_TRUE(torch::allclose(whole, in_parts, 1e-5, 1e-6)) << loss;
    EXPECT_TRUE(torch::allclose(gradient, gradient_in_parts, 1e-5, 1e-6)) << loss;
  }
}

TEST_F(ScriptWorkload, draws_whole_numbers_for_an_embedding) {
  torch::jit::Module net("net");
  net.register_parameter("table", weight({10, 4}), false);
  net.define("def forward(self, x):\n  return torch.embedding(self.table, x)\n");
  const auto workload = make_workload(save(net), input("3x50:int<10>"));
  const Tensor tokens = workload->batch(0).input;
  EXPECT_EQ(tokens.scalar_type(), torch::kInt64);
  EXPECT_EQ(tokens.min().item<int64_t>(), 0);
  EXPECT_EQ(tokens.max().item<int64_t>(), 9);
  tests::expect_identical_steps(name(), input("3x50:int<10>"), kStrategies);
}

TEST(ScriptInput, has_sizes_and_a_kind) {
  EXPECT_THAT(parse_script_input("8x3x224x224").sizes, ElementsAre(8, 3, 224, 224));
  EXPECT_FALSE(parse_script_input("8x3:float").below);
  EXPECT_EQ(parse_script_input("8:int<1000>").below, 1000);
  for (const char* text :
       {"", "x", "8x", "x8", "0x3", "-1", "8x3.5", "8 x 3", "8x3:", "8x3:double", "8:int",
        "8:int<>", "8:int<0>", "8:int<x>", "8:int<5", "8:float:int", "99999999999999999999"}) {
    try {
      parse_script_input(text);
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(std::string("--input: '") + text + "'"), HasSubstr("\nhint: ")));
    }
  }
}

TEST_F(ScriptWorkload, refuses_options_that_are_missing_or_unknown) {
  save(convolution());
  EXPECT_THAT(tests::usage_error(name(), {}), HasSubstr("--input is missing"));
  WorkloadOptions options = input("2x3x6x6");
  options.loss = "mse";
  EXPECT_THAT(tests::usage_error(name(), options), HasSubstr("--loss: 'mse'"));
  options = input("2x3x6x6");
  options.width = 5;
  EXPECT_THAT(tests::usage_error(name(), options),
              AllOf(HasSubstr("--width does nothing"), HasSubstr("--input, --loss")));
}

TEST_F(ScriptWorkload, refuses_files_that_are_no_script) {
  EXPECT_THAT(tests::usage_error(name(), input("2")), HasSubstr("cannot open"));
  EXPECT_THAT(tests::usage_error("script:", input("2")), HasSubstr("cannot open ''"));
  EXPECT_THAT(tests::usage_error("script:" + folder_.path(""), input("2")), HasSubstr("folder"));
  const auto failure = [&] { return tests::error_of(name(), input("2x3x6x6")); };
  folder_.write("net.pt", "no script");
  EXPECT_THAT(failure(), AllOf(HasSubstr("is no TorchScript module"), HasSubstr("\nhint: ")));
  folder_.write("net.pt", "");
  EXPECT_THAT(failure(), HasSubstr("is no TorchScript module"));
  torch::save(torch::ones({3}), folder_.path("net.pt"));
  EXPECT_THAT(failure(), HasSubstr("net.pt'"));
  save(convolution());
  const std::string whole = tests::read_file(folder_.path("net.pt"));
  folder_.write("net.pt", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(failure(), HasSubstr("is no TorchScript module"));
}

TEST_F(ScriptWorkload, refuses_scripts_that_take_something_else_or_cannot_be_trained) {
  const auto failure = [&](const std::string& code, bool parameter = true) {
    torch::jit::Module net("net");
    if (parameter) net.register_parameter("w", weight({6}), false);
    net.define(code);
    return tests::error_of(save(net), input("2x6"));
  };
  EXPECT_THAT(failure("def forward(self, x, y):\n  return x * y * self.w\n"),
              HasSubstr("forward(Tensor x, Tensor y) does not take one tensor"));
  EXPECT_THAT(failure("def forward(self, n: int):\n  return self.w * n\n"),
              HasSubstr("forward(int n) does not take one tensor"));
  EXPECT_THAT(failure("def backward(self, x):\n  return self.w\n"), HasSubstr("one tensor"));
  EXPECT_THAT(failure("def forward(self, x):\n  return x\n", false),
              HasSubstr("has no parameters to train"));
}

TEST_F(ScriptWorkload, says_in_one_line_what_its_forward_pass_cannot_do) {
  const auto failure = [&](const std::string& shape) {
    const auto workload = make_workload(name(), input(shape));
    try {
      workload->run(parse_strategy("plain"), workload->batch(0));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no Error");
  };
  save(convolution());
  EXPECT_THAT(failure("2x5x6x6"),
              ::testing::MatchesRegex("'.*net.pt': its forward pass failed: .*expected input.*to "
                                      "have 3 channels.*\nhint: .*--input.*"));
  save(convolution("x.size(0)"));
  EXPECT_THAT(failure("2x3x6x6"), HasSubstr("returns no floating-point tensor"));
}

}  // namespace
}  // namespace reprise::workloads
