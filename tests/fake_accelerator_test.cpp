// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fake_accelerator.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>

#include "tests/support.h"
#include "tests/ways.h"

// The accelerator that tests use is an accelerator: models train on it, its memory is counted.

namespace reprise::testing {
namespace {

namespace F = torch::nn::functional;

class FakeAccelerator : public ::testing::Test {
 protected:
  void SetUp() override { install_fake_accelerator(); }
};

/// Three steps of AdamW on `device`: every loss and gradient, then the parameters and buffers, all
/// on the CPU. `loss` is called with the model and the device.
template <class Model, class Loss>
std::vector<Tensor> train(Model make(), const Loss& loss, c10::Device device) {
  torch::manual_seed(3);
  Model model = make();
  model->to(device);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  std::vector<Tensor> seen;
  torch::manual_seed(5);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Tensor value = loss(model, device);
    value.backward();
    seen.push_back(value.detach().to(c10::kCPU));
    for (const Tensor& parameter : model->parameters()) {
      EXPECT_EQ(parameter.grad().device(), device);
      seen.push_back(parameter.grad().to(c10::kCPU, /*non_blocking=*/false, /*copy=*/true));
    }
    optimizer.step();
  }
  for (const Tensor& tensor : model->parameters()) seen.push_back(tensor.detach().to(c10::kCPU));
  for (const Tensor& tensor : model->buffers()) seen.push_back(tensor.to(c10::kCPU));
  return seen;
}

Tensor targets(int64_t count, int64_t classes, c10::Device device) {
  return torch::arange(count, torch::dtype(torch::kLong).device(device)).remainder(classes);
}

torch::nn::Sequential make_mlp() {
  return torch::nn::Sequential(
      torch::nn::Linear(16, 32), torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
      torch::nn::GELU(), torch::nn::Dropout(0.5), torch::nn::Linear(32, 32),
      torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)), torch::nn::Softmax(1),
      torch::nn::Linear(32, 5));
}

Tensor mlp_loss(torch::nn::Sequential& model, c10::Device device) {
  const Tensor input = leaf({8, 16}).detach().to(device);
  return F::cross_entropy(model->forward(input), targets(8, 5, device));
}

torch::nn::Sequential make_convnet() {
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)),
                               torch::nn::BatchNorm2d(8), torch::nn::ReLU(),
                               torch::nn::MaxPool2d(2),
                               torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 4, 3).bias(false)),
                               torch::nn::ConvTranspose2d(4, 6, 2), torch::nn::AdaptiveAvgPool2d(1),
                               torch::nn::Flatten(), torch::nn::Linear(6, 5));
}

Tensor convnet_loss(torch::nn::Sequential& model, c10::Device device) {
  const Tensor input = leaf({4, 3, 10, 10}).detach().to(device);
  return F::cross_entropy(model->forward(input), targets(4, 5, device));
}

TEST_F(FakeAccelerator, is_the_accelerator_of_the_process) {
  install_fake_accelerator();
  EXPECT_EQ(at::accelerator::getAccelerator(), fake_device().type());
  EXPECT_EQ(at::accelerator::deviceCount(), 1);
  EXPECT_EQ(at::accelerator::getDeviceIndex(), 0);
  EXPECT_EQ(c10::Device("fake:0"), fake_device());
  EXPECT_EQ(torch::ones({2}, fake_device()).device(), fake_device());
}

TEST_F(FakeAccelerator, trains_to_the_bits_of_the_cpu) {
  const auto mlp = train(make_mlp, mlp_loss, fake_device());
  EXPECT_TRUE(same_bits(mlp, train(make_mlp, mlp_loss, c10::kCPU)));
  EXPECT_TRUE(same_bits(mlp, train(make_mlp, mlp_loss, fake_device())));
  const auto convnet = train(make_convnet, convnet_loss, fake_device());
  EXPECT_TRUE(same_bits(convnet, train(make_convnet, convnet_loss, c10::kCPU)));
}

TEST_F(FakeAccelerator, attends_and_embeds_to_the_bits_of_the_cpu) {
  const auto gradients = [](c10::Device device) {
    const Tensor table = leaf({7, 16}).detach().to(device).requires_grad_();
    const Tensor rows = F::embedding(targets(24, 7, device), table).view({2, 3, 4, 16});
    const Tensor attended = at::scaled_dot_product_attention(rows, rows, rows.sin(), {}, 0, true);
    attended.transpose(1, 2).reshape({-1}).square().sum().backward();
    return std::vector<Tensor>{attended.detach().to(c10::kCPU), table.grad().to(c10::kCPU)};
  };
  EXPECT_TRUE(same_bits(gradients(fake_device()), gradients(c10::kCPU)));
}

// Fused on accelerators, and summed in another order there: equal but for rounding of doubles.
template <class Cells>
std::vector<Tensor> recur(Cells cells, c10::Device device) {
  torch::manual_seed(9);
  for (Tensor& parameter : cells->parameters()) parameter.detach().uniform_(-1, 1);
  cells->to(device, at::kDouble);
  const Tensor input = leaf({5, 3, 8}).detach().to(device, at::kDouble);
  const Tensor output = std::get<0>(cells->forward(input));
  output.sin().sum().backward();
  std::vector<Tensor> seen{output.detach().cpu()};
  for (const Tensor& parameter : cells->parameters()) seen.push_back(parameter.grad().cpu());
  return seen;
}

template <class Cells>
void expect_recurs_as_the_cpu() {
  const auto fake = recur(Cells(8, 6), fake_device()), cpu = recur(Cells(8, 6), c10::kCPU);
  ASSERT_EQ(fake.size(), cpu.size());
  for (size_t i = 0; i < fake.size(); ++i) {
    EXPECT_TRUE(at::allclose(fake[i], cpu[i], 1e-12, 1e-13)) << i << '\n' << fake[i] << cpu[i];
  }
}

TEST_F(FakeAccelerator, recurs_as_the_cpu) {
  expect_recurs_as_the_cpu<torch::nn::LSTM>();
  expect_recurs_as_the_cpu<torch::nn::GRU>();
}

TEST_F(FakeAccelerator, autocasts) {
  const auto type = fake_device().type();
  at::autocast::set_autocast_dtype(type, at::kBFloat16);
  at::autocast::set_autocast_enabled(type, true);
  const Tensor weight = leaf({4, 4}).detach().to(fake_device()).requires_grad_();
  const Tensor half = torch::linear(torch::ones({2, 4}, fake_device()), weight);
  const Tensor loss = half.exp().sum();
  at::autocast::set_autocast_enabled(type, false);
  at::autocast::clear_cache();
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(weight.grad().device(), fake_device());
}

TEST_F(FakeAccelerator, brings_activations_back_in_every_way) {
  const Meter meter(fake_device());
  int64_t held = 0;
  const auto plain = train(
      make_mlp,
      [&](auto& model, c10::Device device) {
        const Tensor loss = mlp_loss(model, device);
        held = meter.live();
        return loss;
      },
      fake_device());
  for (const Way way : {Way::functions, Way::whole_functions, Way::operators}) {
    const auto replayed = train(
        make_mlp,
        [&](auto& model, c10::Device device) {
          const Tensor loss = checkpoint(options_of(way), [&] { return mlp_loss(model, device); });
          EXPECT_LT(meter.live(), held);
          return loss;
        },
        fake_device());
    EXPECT_TRUE(same_bits(replayed, plain));
  }
}

TEST_F(FakeAccelerator, views_share_memory_and_results_are_the_arguments_they_are) {
  Tensor base = torch::zeros({4, 6}, fake_device());
  const int64_t live = fake_memory().live();
  Tensor view = base.t().slice(0, 1, 5, 2);
  EXPECT_TRUE(view.is_alias_of(base));
  EXPECT_TRUE(view.add_(1).is_same(view));
  EXPECT_EQ(fake_memory().live(), live);
  EXPECT_EQ(base.sum().item<float>(), 8);
  base.index_put_({torch::tensor({0, 3}, fake_device())}, torch::full({}, 9., fake_device()));
  EXPECT_EQ(base.sum().item<float>(), 2 * 54 + 4);

  Tensor other = torch::ones({3}, fake_device());
  const Tensor alias = other.detach();
  other.resize_({40, 10}).fill_(2);  // moves the storage that both share
  EXPECT_EQ(alias.sum().item<float>(), 6);
  other.resize_({0});
  at::add_out(other, base, base);
  EXPECT_EQ(other.sizes(), base.sizes());
  other.set_(base);
  EXPECT_TRUE(other.is_alias_of(base));
  EXPECT_TRUE(other.unsqueeze_(0).is_alias_of(base));
  EXPECT_EQ(other.dim(), 3);
  const Tensor complex = at::view_as_complex(torch::ones({3, 2}, fake_device()));
  EXPECT_EQ(at::imag(complex.conj().clone()).sum().item<float>(), -3);
  const Tensor listed[] = {base, other};
  at::_foreach_mul_(listed, 0);
  EXPECT_EQ(base.abs().sum().item<float>(), 0);
}

TEST_F(FakeAccelerator, has_a_generator_of_its_own) {
  const at::Generator generator = at::globalContext().defaultGenerator(fake_device());
  torch::manual_seed(11);
  const Tensor state = generator.get_state();
  const Tensor cpu = torch::randn({100});
  EXPECT_TRUE(bit_equal(generator.get_state(), state));
  EXPECT_TRUE(bit_equal(torch::randn({100}, fake_device()).cpu(), cpu));
  EXPECT_FALSE(bit_equal(generator.get_state(), state));
  torch::manual_seed(11);
  torch::dropout(torch::ones({100}, fake_device()), 0.3, true);
  EXPECT_TRUE(bit_equal(torch::randn({100}), cpu));
  EXPECT_THROW(torch::randn({2}, at::detail::getDefaultCPUGenerator(), fake_device()), c10::Error);
}

TEST_F(FakeAccelerator, counts_memory) {
  FakeMemory& memory = fake_memory();
  const int64_t start = memory.live();
  {
    const Tensor tensor = torch::empty({1000}, fake_device());
    EXPECT_EQ(memory.live() - start, 4096);
    EXPECT_EQ(memory.requested(), 4000);
    torch::empty({1 << 20}, fake_device());
    const auto stats = at::accelerator::getDeviceStats(0).allocated_bytes[0];
    EXPECT_EQ(stats.current - start, 4096);
    EXPECT_EQ(stats.peak - start, 4096 + (4 << 20));
    EXPECT_EQ(stats.allocated - stats.freed, stats.current);
    at::accelerator::resetPeakStats(0);
    EXPECT_EQ(at::accelerator::getDeviceStats(0).allocated_bytes[0].peak - start, 4096);
    EXPECT_EQ(memory.largest() - start, 4096 + (4 << 20));
  }
  train(make_mlp, mlp_loss, fake_device());
  EXPECT_EQ(memory.live(), start);
  EXPECT_GT(at::accelerator::getDeviceStats(0).allocated_bytes[0].peak, start + 4096);
  EXPECT_EQ(at::accelerator::getDeviceStats(0).allocation[0].current, 0);

  void* raw = memory.raw_allocate(5);
  EXPECT_EQ(memory.live() - start, 512);
  memory.raw_deallocate(raw);
  EXPECT_EQ(memory.live(), start);
}

// Counts what it is asked for, and hands it on.
struct Outer final : c10::Allocator {
  int asked = 0;
  c10::DataPtr allocate(size_t bytes) override {
    ++asked;
    return fake_memory().allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return fake_memory().raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    fake_memory().copy_data(to, from, bytes);
  }
};

TEST_F(FakeAccelerator, takes_memory_from_an_allocator_set_over_its_own) {
  static Outer outer;
  const Tensor before = torch::ones({3}, fake_device());
  EXPECT_EQ(before.storage().data_ptr().get_deleter(), fake_memory().raw_deleter());
  c10::SetAllocator(fake_device().type(), &outer);
  const Tensor sum = std::get<0>(before.add(before).sort());
  EXPECT_GE(outer.asked, 3);
  c10::SetAllocator(fake_device().type(), &fake_memory());
}

TEST_F(FakeAccelerator, asks_for_memory_before_it_fails) {
  FakeMemory& memory = fake_memory();
  Tensor spare = torch::ones({1024}, fake_device());
  memory.set_capacity(memory.live() + 2048);
  EXPECT_EQ(at::accelerator::getMemoryInfo(0), std::pair(size_t{2048}, size_t{6144}));
  int asked = 0;
  memory.set_free_callback([&] {
    ++asked;
    return std::exchange(spare, Tensor()).defined();
  });
  const Tensor fits = torch::ones({256}, fake_device());
  EXPECT_EQ(asked, 0);
  const Tensor more = fits.repeat({4});
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(more.sum().item<float>(), 1024);
  EXPECT_THROW(more.exp(), c10::OutOfMemoryError);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(at::accelerator::getDeviceStats(0).num_ooms, 1);
  memory.set_capacity(1 << 20);
  EXPECT_EQ(more.exp().sizes(), more.sizes());
}

}  // namespace
}  // namespace reprise::testing
