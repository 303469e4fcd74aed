// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/offload.h>
#include <reprise/scope.h>

#include <torch/torch.h>

#include "tests/fake_accelerator.h"
#include "tests/store_support.h"
#include "tests/support.h"
#include "tests/temp_folder.h"

// Saved tensors of an accelerator in a store: on one made of host memory, and on a real one where
// there is one.

namespace reprise {
namespace {

namespace nn = torch::nn;
using testing::Tensor;

struct Net {
  explicit Net(c10::Device where, int64_t width, int64_t rows) : device(where) {
    torch::manual_seed(1);
    for (int layer = 0; layer < 6; ++layer) {
      layers->push_back(nn::Linear(width, width));
      layers->push_back(nn::GELU());
      layers->push_back(nn::LayerNorm(nn::LayerNormOptions({width})));
      layers->push_back(nn::Dropout(0.2));
    }
    input = torch::randn({rows, width}).to(device);
    layers->to(device);
  }

  /// Loss and gradients; `between` runs between the passes.
  std::vector<Tensor> step(const Policy* policy, OffloadSummary* summary = nullptr,
                           const std::function<void(const Scope&)>& between = {}) {
    torch::manual_seed(3);
    Tensor loss;
    std::unique_ptr<Scope> scope;
    if (policy != nullptr) scope = std::make_unique<Scope>(*policy);
    loss = layers->forward(input).square().mean();
    if (scope) scope->end();
    if (scope && between) between(*scope);
    loss.backward();
    std::vector<Tensor> results{loss.detach().cpu()};
    for (Tensor& parameter : layers->parameters()) {
      results.push_back(parameter.grad().cpu());
      parameter.mutable_grad() = Tensor();
    }
    if (summary != nullptr) *summary = scope->summary().offload;
    return results;
  }

  const c10::Device device;
  nn::Sequential layers;
  Tensor input;
};

void gives_the_same_bits_in_less_memory(Net& net, const Store& store) {
  const Meter meter(net.device);
  net.step(nullptr);
  const auto plain = net.step(nullptr);
  const int64_t base = meter.live();
  int64_t plain_peak = 0;
  {
    const PeakScope peak(meter);
    net.step(nullptr);
    plain_peak = peak.peak_above_base();
  }
  for (const bool arrives : {false, true, true}) {
    SCOPED_TRACE(arrives);
    const StoreStats before = store.stats();
    OffloadSummary summary;
    const Policy policy = Policy::offload(store);
    const PeakScope peak(meter);
    const auto results = net.step(&policy, &summary, [&](const Scope& scope) {
      if (!arrives) return;
      // What is still being copied goes on when the tape is used next: not all can arrive here.
      EXPECT_TRUE(tests::soon([&] {
        return store.stats().blocks_sent - before.blocks_sent >= scope.summary().offload.moved / 2;
      }));
    });
    EXPECT_TRUE(testing::same_bits(results, plain));
    EXPECT_GT(summary.moved, 12) << summary;
    EXPECT_EQ(summary.fetched + summary.returned, summary.moved) << summary;
    if (arrives) {
      EXPECT_GT(summary.fetched, 0) << summary;
    }
    EXPECT_LT(peak.peak_above_base(), plain_peak) << summary;
    EXPECT_EQ(meter.live(), base);
  }
  EXPECT_EQ(store.stats().blocks_held, 0);
}

class OffloadOnAnAccelerator : public ::testing::Test {
 protected:
  void SetUp() override { testing::install_fake_accelerator(); }
  tests::TempFolder folder;
};

TEST_F(OffloadOnAnAccelerator, ToDisk) {
  Net net(testing::fake_device(), 64, 512);
  gives_the_same_bits_in_less_memory(net, DiskStore(folder.path("")));
  EXPECT_EQ(folder.entries(), 0U);
}

TEST_F(OffloadOnAnAccelerator, ToTheHost) {
  Net net(testing::fake_device(), 64, 512);
  gives_the_same_bits_in_less_memory(net, HostStore(8 << 20));
}

TEST_F(OffloadOnAnAccelerator, ARetainedGraphIsWalkedAgain) {
  Net net(testing::fake_device(), 64, 512);
  const auto plain = net.step(nullptr);
  const DiskStore store(folder.path(""));
  torch::manual_seed(3);
  Tensor loss;
  {
    const Scope scope(Policy::offload(store));
    loss = net.layers->forward(net.input).square().mean();
  }
  for (int pass = 0; pass < 3; ++pass) {
    loss.backward({}, /*retain_graph=*/pass < 2);
    std::vector<Tensor> results{loss.detach().cpu()};
    for (Tensor& parameter : net.layers->parameters()) {
      results.push_back(parameter.grad().cpu());
      parameter.mutable_grad() = Tensor();
    }
    EXPECT_TRUE(testing::same_bits(results, plain)) << pass;
  }
}

// ---- Streams: what only shows where work runs later than it is called.

class OffloadOnAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  }
  tests::TempFolder folder;
};

// Memory that is let go of while a copy on another stream still reads it would be overwritten, and
// gradients would be NaN or of another step.
TEST_F(OffloadOnAGpu, MemoryIsNotUsedAgainBeforeItIsCopied) {
  Net net(c10::Device("cuda:0"), 2048, 8192);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  gives_the_same_bits_in_less_memory(net, HostStore(int64_t{2} << 30));
}

// A wait for the stream that is current where the copy begins, and not for the one that computes,
// waits for nothing: what is sent would not have been computed yet.
TEST_F(OffloadOnAGpu, ACopyWaitsForWhatIsComputed) {
  Net net(c10::Device("cuda:0"), 4096, 8192);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  gives_the_same_bits_in_less_memory(net, DiskStore(folder.path("")));
}

}  // namespace
}  // namespace reprise
