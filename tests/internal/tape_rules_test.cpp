// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/amp.h>
#include <reprise/error.h>
#include <reprise/meter.h>

#include <ATen/ScalarOps.h>
#include <torch/library.h>

#include "tests/internal/tape_programs.h"

// The sixteen rules of docs/tape.md: for each, the smallest program that goes wrong without it. The
// programs make values that are constants to autograd and multiply them with x: the gradient of x
// is then what a replay brings back.

namespace reprise::detail {
namespace {

/// Gradient of a leaf x of these sizes.
void check_loss(at::IntArrayRef sizes, const std::function<Tensor(const Tensor& x)>& loss) {
  check(of([sizes = sizes.vec()] { return std::vector<Tensor>{leaf(sizes)}; },
           [loss](const auto& leaves) { return loss(leaves[0]); }));
}

/// Records `forward` with everything dropped.
template <class F>
auto dropped(const F& forward) {
  const Recording recording(std::make_shared<Tape>(std::make_shared<DropAll>()));
  return forward();
}

/// Operators as users may register them: one looks at requires_grad, one at a global.
int64_t length = 3;
Tensor look(const Tensor& x) { return x * (x.requires_grad() ? 2 : 3); }
Tensor cut(const Tensor& x) { return x.slice(0, 0, length).clone(); }

TORCH_LIBRARY(reprise_rules, m) {
  m.def("look(Tensor x) -> Tensor");
  m.def("cut(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(reprise_rules, CPU, m) {
  m.impl("look", look);
  m.impl("cut", cut);
}

Tensor call(const char* op, const Tensor& x) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(op, "").typed<Tensor(const Tensor&)>().call(
      x);
}

TEST(TapeRules, R01_AHeldStorageServesItsLatestVersionOnly) {
  check_loss({4, 4}, [](const Tensor& x) {
    Tensor held = x.detach().mm(x.detach());
    const Tensor before = held.sin();
    held.add_(1);
    return (x * before).sum() + (x * held).sum();
  });
}

TEST(TapeRules, R02_AnExternalIsCopiedBeforeItIsWrittenTo) {
  check([](const Scoped& scoped) {
    const Tensor x = leaf({4}), buffer = at::randn({4});
    Tensor loss;
    scoped([&] {
      const Tensor before = buffer.sin();
      buffer.add_(1);
      loss = (x * before).sum() + (x * buffer.cos()).sum();
    });
    return std::vector<Tensor>{torch::autograd::grad({loss}, {x})[0], buffer};
  });
}

TEST(TapeRules, R03_AWriteIsReplayedOnOnePrivateCopy) {
  check_loss({4, 4}, [](const Tensor& x) {
    Tensor written = x.detach().exp();
    const Tensor before = written.sin();
    at::_foreach_add_({written[0], written[1]}, {written[1], written[0]});  // reads what it wrote
    at::sin_out(written, written);                                          // fills it from itself
    const Tensor first = x * before;  // so that the backward pass asks for `written` first
    return first.sum() + (x * written).sum();
  });
}

TEST(TapeRules, R04_BatchNormWritesToItsStatistics) {
  check([](const Scoped& scoped) {
    const Tensor x = leaf({4, 3}), mean = at::zeros({3}), var = at::ones({3});
    Tensor loss;
    scoped([&] {
      const Tensor y = at::batch_norm(x, {}, {}, mean, var, /*training=*/true, 0.1, 1e-5, false);
      loss = y.sin().sum();
    });
    return std::vector<Tensor>{torch::autograd::grad({loss}, {x})[0], mean, var};
  });
}

TEST(TapeRules, R05_DrawsAreReplayedFromTheirGeneratorsState) {
  check([](const Scoped& scoped) {
    auto own = at::make_generator<at::CPUGeneratorImpl>(5);
    const Tensor x = leaf({16});
    Tensor loss;
    scoped([&] { loss = (x * at::rand({16})).sum() + (x * at::rand({16}, own)).sum(); });
    return std::vector<Tensor>{torch::autograd::grad({loss}, {x})[0], at::rand({2}),
                               at::rand({2}, own)};
  });
}

// The scope begins under autocast, which would make this product bfloat16.
TEST(TapeRules, R06_ReplaysRunBelowAutocast) {
  const Autocast everywhere(at::kCPU);
  check_loss({4, 4}, [](const Tensor& x) {
    const Autocast here(at::kCPU, at::kBFloat16, false);
    return (x * x.detach().mm(x.detach())).sum();
  });
}

TEST(TapeRules, R07_AWrappedNumberStaysOne) {
  check_loss({}, [](const Tensor& x) {
    return x * (x.detach() * at::native::wrapped_scalar_tensor(2.5));
  });
}

TEST(TapeRules, R08_ConjAndNegBitsAreGeometry) {
  check_loss({4}, [](const Tensor& x) {
    const Tensor z = at::complex(x.detach().sin(), x.detach().cos());
    const Tensor conj = at::real(at::complex(x, x) * z.exp().conj());  // saves a conj view
    return conj.sum() + (x * at::imag(z.tan().conj())).sum();          // and one with a neg bit
  });
}

TEST(TapeRules, R09_UninitialisedMemoryIsUnknownUntilItIsOverwritten) {
  check_loss({4}, [](const Tensor& x) {
    const Tensor raw = at::empty({4});
    fill_raw(raw, 3);
    Tensor resized = x.detach().exp();
    resized.resize_({8});
    fill_raw(resized, 2);
    const Tensor shared = x.detach().cos();
    at::empty({0}).set_(shared);
    fill_raw(shared, 5);
    return (x * raw).sum() + (x * resized.slice(0, 4)).sum() + (x * shared).sum();
  });
}

TEST(TapeRules, R10_ATensorThatChangedBeforeTheBackwardPassIsAnError) {
  const Tensor x = leaf({4}), bias = leaf({4});
  Tensor saved;
  const Tensor reads = dropped([&] { return (x + bias).exp().sin().sum(); });
  const Tensor asks = dropped([&] { return (saved = x.exp()).sum(); });
  const torch::NoGradGuard guard;
  bias.add_(1);   // the replay would read it
  saved.add_(1);  // autograd has saved it
  EXPECT_THROW(reads.backward(), Error);
  EXPECT_THROW(asks.backward(), c10::Error);
}

// oneDNN's LSTM looks at the grad mode, the operator above at requires_grad.
TEST(TapeRules, R11_ArgumentsAndGradModeAreAsTheyWere) {
  check_loss({5, 2, 4}, [](const Tensor& x) {
    const Tensor h = at::zeros({1, 2, 4}), weight = at::randn({16, 4}).requires_grad_();
    return std::get<0>(at::lstm(x, {h, h}, {weight, weight}, false, 1, 0.0, true, false, false))
        .sin()
        .sum();
  });
  check_loss({4}, [](const Tensor& x) {
    const auto constant = [&] {
      const torch::NoGradGuard guard;
      return call("reprise_rules::look", x);
    };
    return (x * constant()).sum();
  });
}

// The operator saves its noise before it draws it.
TEST(TapeRules, R12_ASavedTensorMeansItsContentsAtTheBackwardPass) {
  check_loss({16}, [](const Tensor& x) {
    Tensor noise = at::zeros({16});
    return at::rrelu_with_noise(x.sin(), noise, 0.1, 0.4, /*training=*/true).sum();
  });
}

class KeepAll final : public Decider {
  Decision decide(const ValueInfo&) override { return Decision::keep; }
  bool hold(const ValueInfo&) override { return false; }
};

// exp saves its own result: kept with its grad_fn, it would own the node that owns it.
TEST(TapeRules, R13_AGraphThatNobodyRunsIsNotKeptByItsTape) {
  const Tensor x = leaf({1024});
  const Meter meter;
  const int64_t base = meter.live();
  {
    const Recording recording(std::make_shared<Tape>(std::make_shared<KeepAll>()));
    x.exp();
  }
  dropped([&] { return x.exp(); });
  EXPECT_EQ(meter.live(), base);
}

TEST(TapeRules, R14_DetachGivesARealTensor) {
  const Tensor x = at::randn({3, 3}), sparse = at::eye(3).to_sparse();
  dropped([&] {
    for (const Tensor& t : {x, sparse}) {
      EXPECT_TRUE(bit_equal(t.detach(), t));
      EXPECT_TRUE(bit_equal(t.tensor_data(), t));  // as when autograd saves it
    }
    return 0;
  });
}

TEST(TapeRules, R15_AnUnexplainedVersionMakesAStorageExternalFromThereOn) {
  check_loss({4}, [](const Tensor& x) {
    const Tensor bumped = x.detach().exp(), before = bumped.sin();
    fill_raw(bumped, 2);
    bumped.unsafeGetTensorImpl()->bump_version();
    std::vector<Tensor> list{x.detach().cos()};
    at::_foreach_mul_(list, 0.5);  // does not count its writes as most operators do
    fill_raw(list[0], 3);
    list[0].unsafeGetTensorImpl()->bump_version();
    return (x * before).sum() + (x * bumped).sum() + (x * list[0]).sum();
  });
}

TEST(TapeRules, R16_AReplayThatGivesAnotherGeometryIsAnError) {
  const Tensor x = leaf({4});
  const Tensor loss =
      dropped([&] { return (x.slice(0, 0, 3) * call("reprise_rules::cut", x.detach())).sum(); });
  length = 2;
  EXPECT_THROW(loss.backward(), RecomputeMismatch);
  length = 3;
}

}  // namespace
}  // namespace reprise::detail
