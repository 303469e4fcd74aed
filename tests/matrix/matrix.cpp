// SPDX-License-Identifier: BSD-3-Clause
#include "tests/matrix/matrix.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/one_thread.h"
#include "tests/store_support.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

namespace reprise::matrix {
namespace {

uint64_t mix(uint64_t seed, const ValueView& value) {
  const std::string text = std::string(value.op) + '.' + std::string(value.overload) + '#' +
                           std::to_string(value.invocation) + '/' + std::to_string(value.output) +
                           '@' + std::to_string(seed);
  uint64_t hash = 1469598103934665603U;  // FNV-1a: the same on every machine
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash ^ (hash >> 29U);
}

/// Of eight values it drops four, encodes two, and holds one, saved or not. The eighth is kept
/// where it is saved, or dropped too.
Policy random_policy(uint64_t seed) {
  const auto rule = [seed](Action action, uint64_t begin, uint64_t end) {
    return Policy::where(
        [=](const ValueView& value) {
          const uint64_t draw = mix(seed, value) % 8;
          return begin <= draw && draw < end;
        },
        action, "random " + std::to_string(seed) + " from " + std::to_string(begin));
  };
  return (rule(Action::recompute, 0, 4) | rule(Action::encode, 4, 6) | rule(Action::keep, 6, 7))
      .otherwise(seed % 2 ? Action::keep : Action::recompute);
}

uint64_t offloads_to_try() {
  const char* const wanted = std::getenv("REPRISE_MATRIX_OFFLOADS");
  return wanted ? std::stoull(wanted) : 6;
}

/// Of eight values it offloads five, encodes, drops and holds one each.
Policy random_offload(uint64_t seed, const Store& store) {
  const auto rule = [seed](Action action, uint64_t begin, uint64_t end) {
    return Policy::where(
        [=](const ValueView& value) {
          const uint64_t draw = mix(seed + 1000, value) % 8;
          return begin <= draw && draw < end;
        },
        action, "random offload " + std::to_string(seed) + " from " + std::to_string(begin));
  };
  OffloadOptions options;
  options.min_bytes(seed % 3 == 0 ? 256 : 0);
  options.keep_last(static_cast<int64_t>(seed / 2 % 3));
  options.fraction(seed % 5 == 4 ? 0.5 : 1);
  options.fetch_ahead(seed % 4 == 0 ? 0 : seed % 4 == 1 ? 1000 : kNoLimit);
  options.on_failure(seed / 3 % 2 ? StoreFailure::recompute : StoreFailure::error);
  return (rule(Action::offload, 0, 5) | rule(Action::encode, 5, 6) | rule(Action::recompute, 6, 7) |
          rule(Action::keep, 7, 8))
      .into(store, options)
      .audit(false);
}

Policy drop_all(const std::string& label) {
  return Policy::where([](const ValueView&) { return true; }, Action::recompute, label);
}

Cell run(const Program& program, at::ScalarType dtype, const std::optional<Policy>& policy,
         Budget* budget = nullptr, const Store* arrives_in = nullptr) {
  torch::manual_seed(11);
  Cell result(dtype, policy, budget);
  if (arrives_in != nullptr) result.let_arrive_in(*arrives_in);
  program(result);
  result.note("generator", at::globalContext().defaultGenerator(at::kCPU).get_state());
  return result;
}

/// The first difference only: what comes after it follows from it.
void expect_same(const Cell& plain, const Cell& ours) {
  ASSERT_EQ(plain.noted().size(), ours.noted().size());
  for (std::size_t i = 0; i < plain.noted().size(); ++i) {
    const auto& [name, expected] = plain.noted()[i];
    const auto& [our_name, actual] = ours.noted()[i];
    ASSERT_EQ(name, our_name);
    ASSERT_TRUE(bit_equal(expected, actual))
        << name << " differs by up to " << max_abs_difference(expected, actual);
  }
}

}  // namespace

Cell::Cell(at::ScalarType dtype, std::optional<Policy> policy, Budget* budget)
    : dtype(dtype), policy_(std::move(policy)), budget_(budget) {}

Tensor Cell::forward(const std::function<Tensor()>& work) {
  if (budget_ != nullptr) return budget_->forward(work);
  if (!policy_) return work();
  const int64_t arrived = arrives_in_ ? arrives_in_->stats().blocks_sent : 0;
  scopes_.push_back(std::make_unique<Scope>(*policy_));
  const Tensor result = work();
  scopes_.back()->end();
  if (!arrives_in_) return result;
  const int64_t moved = scopes_.back()->summary().offload.moved;
  // Not for ever: what the graph has let go of already is never sent.
  for (int i = 0; i < 30 && arrives_in_->stats().blocks_sent - arrived < moved; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return result;
}

void Cell::note(const std::string& name, const Tensor& tensor) {
  noted_.emplace_back(name, tensor.defined() ? tensor.detach().clone() : tensor);
}

Tensor Cell::leaf(at::IntArrayRef sizes) const {
  return at::randn(sizes).to(dtype).requires_grad_();
}

bool Cell::replayed() const {
  int64_t recomputed = 0, replays = 0;
  for (const auto& scope : scopes_) {
    recomputed += scope->summary().recomputed;
    replays += scope->summary().replays;
  }
  return recomputed > 0 && replays > 0;
}

int64_t Cell::moved() const {
  int64_t moved = 0;
  for (const auto& scope : scopes_) moved += scope->summary().offload.moved;
  return moved;
}

Model model_of(const Cell& cell, const std::shared_ptr<nn::Module>& module,
               const std::vector<int64_t>& input,
               std::function<Tensor(const Tensor& input, int step)> forward) {
  module->to(cell.dtype);
  return {input, module->parameters(), module->buffers(), std::move(forward)};
}

Model model_of(
    const Cell& cell, const std::vector<std::vector<int64_t>>& parameters,
    const std::vector<int64_t>& input,
    const std::function<Tensor(const std::vector<Tensor>& parameters, const Tensor&)>& forward) {
  Model model{input, {}, {}, {}};
  for (const auto& sizes : parameters) model.parameters.push_back(cell.leaf(sizes));
  model.forward = [forward, all = model.parameters](const Tensor& x, int) {
    return forward(all, x);
  };
  return model;
}

Tensor loss_of(const Tensor& output) {
  return (output.is_complex() ? at::view_as_real(output) : output).square().mean();
}

Program training(const std::function<Model(const Cell&)>& make, int steps) {
  return [=](Cell& cell) {
    const Model model = make(cell);
    torch::optim::SGD sgd(model.parameters, 0.05);
    for (int step = 0; step < steps; ++step) {
      sgd.zero_grad();
      const Tensor x = cell.leaf(model.input);
      const std::string at = "step " + std::to_string(step) + ": ";
      Tensor output;
      const Tensor loss = cell.forward([&] { return loss_of(output = model.forward(x, step)); });
      cell.note(at + "output", output);
      output = Tensor();  // else it would serve the backward pass
      loss.backward();
      cell.note(at + "loss", loss);
      cell.note(at + "gradient of the input", x.grad());
      for (std::size_t i = 0; i < model.parameters.size(); ++i) {
        cell.note(at + "gradient of parameter " + std::to_string(i), model.parameters[i].grad());
      }
      for (std::size_t i = 0; i < model.buffers.size(); ++i) {
        cell.note(at + "buffer " + std::to_string(i), model.buffers[i]);
      }
      cell.note(at + "generator", at::globalContext().defaultGenerator(at::kCPU).get_state());
      sgd.step();
      for (std::size_t i = 0; i < model.parameters.size(); ++i) {
        cell.note(at + "parameter " + std::to_string(i), model.parameters[i]);
      }
    }
  };
}

namespace {

// Small models have large needs beside what can be dropped (a generator's state is 5 kB), so that
// only some of the budgets are feasible. What is infeasible must leave nothing behind.
void check_budgets(const Program& program, at::ScalarType dtype, const Cell& plain) {
  for (const double share : {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.1}) {
    SCOPED_TRACE("budget of " + std::to_string(share) + " of plain");
    auto budget = Budget::fraction(share);
    budget.plan_with({.evaluations = 200, .bound = false});
    const int64_t live = Meter().live();
    try {
      run(program, dtype, std::nullopt, &budget);  // its first step is measured
      for (int step = 0; step < 2; ++step) {       // the second one follows a plan, if there is one
        expect_same(plain, run(program, dtype, std::nullopt, &budget));
        budget.finish_planning();
      }
    } catch (const std::exception& error) {
      // TorchScript's backward pass makes an exception of its own that quotes ours.
      if (std::string(error.what()).find("a budget of ") == std::string::npos) throw;
    }
    const BudgetSummary summary = budget.summary();
    EXPECT_LE(summary.peak, summary.limit);
    EXPECT_EQ(Meter().live(), live);
  }
}

void check_offloads(const Program& program, at::ScalarType dtype, const Cell& plain) {
  const tests::TempFolder folder;
  const DiskStore disk(folder.path(""));
  const std::vector<std::pair<std::string, Store>> stores{
      {"disk", disk},
      {"compressed, to disk", CompressedStore(disk, {.min_gain = 0})},
      {"host", HostStore(int64_t{16} << 20)}};
  const auto compare = [&](const std::string& name, const Policy& policy, const Store* arrives_in) {
    SCOPED_TRACE(name);
    const int64_t live = Meter().live();
    int64_t moved = 0;
    try {
      const Cell ours = run(program, dtype, policy, nullptr, arrives_in);
      expect_same(plain, ours);
      moved = ours.moved();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    // What was dropped in mid-transfer goes when that has ended.
    EXPECT_TRUE(tests::soon([&] { return Meter().live() == live; })) << Meter().live() - live;
    return moved;
  };
  for (const auto& [name, store] : stores) {
    const OffloadOptions everything = OffloadOptions().min_bytes(0).keep_last(0);
    EXPECT_GT(compare("offload everything, " + name,
                      Policy::offload(store, everything).audit(false), &store),
              0);
  }
  for (uint64_t seed = 0; seed < offloads_to_try(); ++seed) {
    const auto& [name, store] = stores[seed % stores.size()];
    compare("random offload " + std::to_string(seed) + ", " + name, random_offload(seed, store),
            seed / 3 % 2 == 0 ? &store : nullptr);
  }
  for (const auto& [name, store] : stores) {
    EXPECT_TRUE(tests::soon([&s = store] { return s.stats().blocks_held == 0; })) << name;
    EXPECT_EQ(store.stats().faults, 0) << name;
  }
  EXPECT_EQ(folder.entries(), 0U);
}

}  // namespace

void check(const std::string& family, const Program& program,
           const std::vector<at::ScalarType>& dtypes) {
  const tests::OneThread one_thread;
  const testing::Warnings warnings;
  for (const at::ScalarType dtype : dtypes) {
    const std::string where = family + ", " + c10::toString(dtype);
    const Cell plain = run(program, dtype, std::nullopt);
    const auto compare = [&](const std::string& policy_name, const Policy& policy) {
      SCOPED_TRACE(where + ", " + policy_name);
      try {
        const Cell ours = run(program, dtype, policy);
        expect_same(plain, ours);
        return ours.replayed();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        return false;
      }
    };
    EXPECT_TRUE(compare("full()", Policy::full().audit(false))) << where;
    EXPECT_TRUE(compare("drop all", drop_all("drop all").audit(false))) << where;
    compare("keep_matmuls()", Policy::keep_matmuls().audit(false));
    for (uint64_t seed = 0; seed < 20; ++seed) {
      compare("random " + std::to_string(seed), random_policy(seed).audit(false));
    }
    SCOPED_TRACE(where);
    check_budgets(program, dtype, plain);
    check_offloads(program, dtype, plain);
    // A label of its own makes it the first scope of its policy.
    compare("audit", drop_all("audit of " + where));
  }
  // That a rule of a random policy matches nothing in a small model is no news.
  EXPECT_FALSE(warnings.mention("gave other bits")) << family << ": " << warnings.text();
}

}  // namespace reprise::matrix
