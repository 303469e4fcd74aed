// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include <reprise/reprise.h>

#include <torch/torch.h>

#include "tests/at_once.h"
#include "tests/fake_accelerator.h"
#include "tests/random_program.h"
#include "tests/stress/budgets.h"
#include "tests/stress/offloads.h"
#include "tests/temp_folder.h"

// Random nested regions against plain, bit by bit, with failures, to be run under sanitizers: in
// the forward pass, in replays, and with several backward passes through one graph at once. Between
// them, threads under budgets and threads that offload, on the CPU and on an accelerator made of
// host memory.

#ifdef __SANITIZE_THREAD__
// LibTorch is not instrumented: that it frees a tensor or its memory after whoever gave up the last
// but one reference is ordered by its reference counts, which the sanitizer does not see. Nor does
// it see how a pass is handed to LibTorch's threads for accelerators: those are left out.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:c10::TensorImpl::~TensorImpl\n"
         "race:c10::intrusive_ptr<c10::StorageImpl*release_resources\n";
}
constexpr bool kAccelerator = false;
#else
constexpr bool kAccelerator = true;
#endif

namespace {

using namespace reprise;
using namespace reprise::testing;
using at::Tensor;
using torch::autograd::grad;
using Fault = FaultInjector::Fault;

constexpr int kDepth = 5;
constexpr unsigned kThreadsEvery = 8;
constexpr Grammar kPlain{.failures = true};
constexpr Grammar kRegions{.regions = true, .whole_functions = true, .failures = true};

int64_t failed_forward = 0, failed_backward = 0;

/// The leaves of one program: of some shape.
struct Leaves {
  explicit Leaves(unsigned seed) {
    torch::manual_seed(seed);
    const int64_t rows = 1 + seed % 5, columns = 2 + seed / 5 % 4;
    x = at::randn({rows, columns}).requires_grad_();
    w = at::randn({columns, columns}).requires_grad_();
  }
  Tensor loss(const RandomProgram& program, unsigned seed) const {
    torch::manual_seed(seed);
    const std::vector<Tensor> results = program.run({x, x.sin()}, seed, kDepth);
    return results[0].sin().sum() + (results[1] * x.matmul(w)).sum();
  }
  Tensor x, w;
};

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return bit_equal(a[0], b[0]) && bit_equal(a[1], b[1]);
}

Tensor stream() { return at::globalContext().defaultGenerator(at::kCPU).get_state(); }

/// The forward pass, left by an exception at some step; whatever it had made must be gone.
void fail_forward(const Leaves& leaves, unsigned seed, FaultInjector& faults) {
  const int64_t base = Meter().live();
  faults.arm(1 + seed % 23);
  try {
    leaves.loss(RandomProgram(leaves.w, kRegions, &faults), seed);
  } catch (const Fault&) {
    ++failed_forward;
  }
  faults.arm(0);
  require(Meter().live() == base, "something is left of a forward pass that failed");
}

/// A backward pass, left by an exception in a replay. The next one must not notice.
void fail_backward(const Leaves& leaves, const Tensor& loss, unsigned seed, FaultInjector& faults) {
  const Tensor before = stream();
  faults.arm(1 + seed % 17);
  try {
    grad({loss}, {leaves.x, leaves.w}, {}, /*retain_graph=*/true);
  } catch (const Fault&) {
    ++failed_backward;
  }
  faults.arm(0);
  require(bit_equal(stream(), before), "a backward pass moved the random stream");
}

void walk_on_threads(const Leaves& leaves, const Tensor& loss,
                     const std::vector<Tensor>& expected) {
  std::atomic<int> wrong{0};
  at_once(3, [&](int) {
    const auto ours = grad({loss}, {leaves.x, leaves.w}, {}, /*retain_graph=*/true);
    if (!same(ours, expected)) ++wrong;
  });
  require(wrong == 0, "backward passes on several threads gave other gradients");
}

void check(unsigned seed) {
  FaultInjector faults;
  const Leaves leaves(seed);
  const Tensor plain = leaves.loss(RandomProgram(leaves.w, kPlain), seed);
  const Tensor plain_stream = stream();
  const auto expected = grad({plain}, {leaves.x, leaves.w});

  fail_forward(leaves, seed, faults);
  const int64_t base = Meter().live();
  {
    const Tensor loss = leaves.loss(RandomProgram(leaves.w, kRegions, &faults), seed);
    require(bit_equal(loss, plain), "the loss differs");
    require(bit_equal(stream(), plain_stream), "the random stream differs");
    fail_backward(leaves, loss, seed, faults);
    require(same(grad({loss}, {leaves.x, leaves.w}, {}, /*retain_graph=*/true), expected),
            "the gradients differ");
    walk_on_threads(leaves, loss, expected);
    require(same(grad({loss}, {leaves.x, leaves.w}), expected), "the last gradients differ");
  }
  require(Meter().live() == base, "something is left of a step");
}

/// Threads under budgets and threads that offload, here and there, to this and that store in turn.
class Threads {
 public:
  void check(unsigned seed) {
    const unsigned turn = seed / kThreadsEvery;
    const bool there = kAccelerator && turn % 3 == 2;
    const at::Device device = there ? testing::fake_device() : at::Device(at::kCPU);
    const Store store = turn % 2 ? Store(packed_) : Store(disk_);
    const bool sends = turn % 3 == 1;  // budgets send what is the CPU's
    planned += stress::check_budgets(seed, device, sends ? &store : nullptr);
    moved += stress::check_offloads(seed, device, store);
  }

  int64_t planned = 0, moved = 0;

 private:
  const tests::TempFolder folder_;
  const DiskStore disk_{folder_.path("")};
  const CompressedStore packed_{disk_};
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t wanted = argc > 1 ? std::atoll(argv[1]) : 2000;
  const auto first = static_cast<unsigned>(argc > 2 ? std::atoll(argv[2]) : 0);
  if (argc > 3 || wanted < 1) {
    std::cerr << "usage: reprise_stress [REGIONS [FIRST_SEED]]\n";
    return 2;
  }
  at::set_num_threads(1);
  if (kAccelerator) testing::install_fake_accelerator();
  unsigned seed = first;
  Threads threads;
  try {
    for (; RandomProgram::regions() < wanted; ++seed) {
      check(seed);
      if (seed % kThreadsEvery == 0) threads.check(seed);
    }
  } catch (const std::exception& error) {
    std::cerr << "seed " << seed << ": " << error.what() << "\n";
    return 1;
  }
  std::cout << seed - first << " programs, " << RandomProgram::regions() << " regions, "
            << failed_forward << " forward and " << failed_backward
            << " backward passes left by an exception, " << threads.planned
            << " steps that followed a plan, " << threads.moved << " values moved to a store\n";
}
