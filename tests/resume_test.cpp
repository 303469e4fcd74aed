// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>

#include <reprise/amp.h>
#include <reprise/equality.h>
#include <reprise/error.h>
#include <reprise/resume.h>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/temp_folder.h"

// Resume files: what was saved comes back bit for bit, and what does not fit is refused before
// anything is changed.

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::TempFolder;
using torch::Tensor;
namespace nn = torch::nn;

// Names that TorchScript does not allow, batch norm's buffers, dropout.
struct Net : nn::Module {
  explicit Net(int64_t width = 6)
      : in(register_module("in", nn::Linear(4, width))),
        norm(register_module("norm", nn::BatchNorm1d(width))),
        out(register_module("2nd class", nn::Linear(width, 1))) {}
  Tensor forward(const Tensor& x) { return out(torch::dropout(norm(in(x)), 0.3, true)); }
  nn::Linear in;
  nn::BatchNorm1d norm;
  nn::Linear out;
};

struct Loop {
  std::shared_ptr<Net> net = std::make_shared<Net>();
  torch::optim::AdamW optimizer{net->parameters(), torch::optim::AdamWOptions(0.01)};
  GradScaler scaler;
  int64_t step = 0;

  ResumeState state() { return {net.get(), &optimizer, &scaler, step, "test"}; }

  // Draws its batch from the generator, too.
  Tensor train(int64_t steps) {
    Tensor loss;
    for (int64_t i = 0; i < steps; ++i, ++step) {
      optimizer.zero_grad();
      loss = net->forward(torch::rand({5, 4})).square().mean();
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
    }
    return loss.detach();
  }

  std::vector<Tensor> tensors() {
    std::vector<Tensor> all;
    for (const Tensor& tensor : net->parameters()) all.push_back(tensor.detach().clone());
    for (const Tensor& tensor : net->buffers()) all.push_back(tensor.clone());
    return all;
  }
};

void expect_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(bit_equal(a[i], b[i])) << i;
}

std::string failure_of(const std::string& path, ResumeState state) {
  try {
    load_resume_file(path, state);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ResumeFile, a_run_goes_on_bit_for_bit_in_new_objects) {
  const TempFolder folder;
  torch::manual_seed(3);
  Loop run;
  run.train(4);
  save_resume_file(folder.path("run"), run.state());
  const Tensor expected = run.train(5);

  torch::manual_seed(99);
  Loop resumed;
  ResumeState state = resumed.state();
  load_resume_file(folder.path("run"), state);
  EXPECT_EQ(state.step, 4);
  resumed.step = state.step;
  EXPECT_TRUE(bit_equal(resumed.train(5), expected));
  expect_equal(resumed.tensors(), run.tensors());
  EXPECT_EQ(resumed.scaler.good_steps(), run.scaler.good_steps());
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(ResumeFile, holds_a_module_alone_as_well) {
  const TempFolder folder;
  Loop run, other;
  save_resume_file(folder.path("run"), {run.net.get(), nullptr, nullptr, 0, ""});
  ResumeState state = {other.net.get(), nullptr, nullptr, 0, ""};
  load_resume_file(folder.path("run"), state);
  expect_equal(other.tensors(), run.tensors());
}

TEST(ResumeFile, each_cut_and_each_flipped_bit_is_refused_and_changes_nothing) {
  const TempFolder folder;
  Loop run;
  run.train(1);
  save_resume_file(folder.path("run"), run.state());
  const std::string whole = tests::read_file(folder.path("run"));
  Loop victim;
  const std::vector<Tensor> before = victim.tensors();
  for (std::size_t i = 0; i < 60; ++i) {
    const std::size_t at = i < 40 ? i : whole.size() * (i - 40) / 20;
    const std::string cut = folder.write("cut", whole.substr(0, at));
    EXPECT_THAT(failure_of(cut, victim.state()),
                AllOf(HasSubstr("resume file '"), HasSubstr("hint: ")));
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_NE(failure_of(folder.write("flipped", flipped), victim.state()), "") << at;
  }
  expect_equal(victim.tensors(), before);
}

TEST(ResumeFile, of_another_model_run_or_kind_is_refused_by_name) {
  const TempFolder folder;
  Loop run;
  const std::string path = folder.path("run");
  save_resume_file(path, run.state());
  Loop other;
  ResumeState state = other.state();
  state.run = "another";
  EXPECT_THAT(failure_of(path, state), AllOf(HasSubstr("'test'"), HasSubstr("'another'")));
  state = other.state();
  Net wider(7);
  state.module = &wider;
  EXPECT_THAT(failure_of(path, state), AllOf(HasSubstr("another model"), HasSubstr("'in.weight'"),
                                             HasSubstr("Float [6, 4]"), HasSubstr("[7, 4]")));
  nn::Linear linear(4, 6);
  state.module = linear.get();
  EXPECT_THAT(failure_of(path, state), HasSubstr("which this one lacks"));
  state = other.state();
  state.scaler = nullptr;
  EXPECT_THAT(failure_of(path, state), HasSubstr("has the state of a scaler"));
  save_resume_file(path, state);
  EXPECT_THAT(failure_of(path, other.state()), HasSubstr("has no state of a scaler"));
  EXPECT_THAT(failure_of(folder.write("text", "hello"), state), HasSubstr("is no resume file"));
  EXPECT_THAT(failure_of(folder.write("empty", ""), state), HasSubstr("is no resume file"));
  EXPECT_THAT(failure_of(folder.path("none"), state), HasSubstr("No such file"));
}

TEST(ResumeFile, a_full_disk_leaves_the_old_file) {
  const TempFolder folder;
  Loop run;
  const std::string path = folder.path("run");
  save_resume_file(path, run.state());
  const std::string before = tests::read_file(path);
  run.train(1);
  // A limit on the size of files fails like a full disk, with another number.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {before.size() / 2, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(save_resume_file(path, run.state()), Error);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(tests::read_file(path), before);
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(ResumeFile, needs_a_module_and_a_path_that_can_be_written) {
  Loop run;
  ResumeState nothing;
  EXPECT_THROW(save_resume_file("/tmp/x", nothing), UsageError);
  EXPECT_THROW(load_resume_file("/tmp/x", nothing), UsageError);
  EXPECT_THROW(save_resume_file("/nowhere/at/all", run.state()), UsageError);
}

}  // namespace
}  // namespace reprise
