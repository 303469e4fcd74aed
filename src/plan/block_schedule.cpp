// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "plan/blocks.h"
#include "plan/schedule.h"

namespace reprise::planner {
namespace {

/// Writes the schedule of a chain's plan. Every operator runs in the first forward pass, whatever
/// the plan asks for; what is encoded is encoded there, and decoded wherever it is wanted.
class Writer {
 public:
  Writer(const Problem& problem, const BlockChain& chain, const std::vector<ChainStep>& plan)
      : problem_(problem),
        chain_(chain),
        fate_(problem.values, Label::keep),
        marked_(problem.all_operators(), 0) {
    for (const ChainStep& step : plan) {
      if (step.kind == ChainStep::Kind::backward) set_fates(step);
    }
  }

  void write(const ChainStep& step) {
    const Block& block = chain_.blocks[step.block];
    if (step.kind == ChainStep::Kind::backward) {
      run_backward(block);
    } else if (step.block >= done_) {
      run_first(block);
      done_ = step.block + 1;
    } else if (step.kind == ChainStep::Kind::bare) {
      for (Index v : block.outputs) want(v, block);
      run_marked();
    } else {
      run_forward(block, step.last);
    }
  }

  Steps take() { return std::move(steps_); }

 private:
  void set_fates(const ChainStep& step) {
    const Block& block = chain_.blocks[step.block];
    const Choice choice = (step.last ? block.last : block.choices)[step.option];
    for (std::size_t i = 0; i < block.candidates.size(); ++i) {
      const Index v = block.candidates[i];
      if ((choice.kept >> i & 1U) == 0) {
        fate_[v] = Label::retain;
      } else if ((choice.sent >> i & 1U) != 0) {
        fate_[v] = Label::offload;
      } else if (choice.encodes && problem_.encoder[v] != kNone) {
        fate_[v] = Label::encode;
      }
    }
  }

  void run_first(const Block& block) {
    for (Index i = block.begin; i < block.end; ++i) {
      steps_.push_back({i, kAll});
      for (Index v : problem_.encode_after[i]) {
        if (fate_[v] == Label::encode) steps_.push_back({problem_.encoder[v], kAll});
      }
      if (!problem_.has_store) continue;
      for (Index v : problem_.send_after[i]) {
        if (fate_[v] == Label::offload) steps_.push_back({problem_.sender[v], kAll});
      }
    }
  }

  // Again, so that what is to be kept is there, and the outputs unless the backward run follows.
  void run_forward(const Block& block, bool at_once) {
    for (Index i = block.begin; i < block.end; ++i) {
      for (Index v : problem_.makes[i]) {
        if (fate_[v] == Label::keep && !problem_.needed_at[v].empty()) want(v, block);
      }
    }
    if (!at_once) {
      for (Index v : block.outputs) want(v, block);
    }
    run_marked();
  }

  void run_backward(const Block& block) {
    std::vector<Index> present;
    const auto is_present = [&](Index v) {
      return fate_[v] == Label::keep ||
             std::find(present.begin(), present.end(), v) != present.end();
    };
    for (Index j : block.events) {
      for (Index v : problem_.needs[j]) {
        if (is_inside(v, block) && !is_present(v)) mark(v);
      }
      while (!stack_.empty()) {
        const Index op = stack_.back();
        stack_.pop_back();
        closure_.push_back(op);
        if (op >= problem_.operators) continue;
        for (Index v : problem_.reads[op]) {
          if (is_inside(v, block) && !is_present(v)) mark(v);
        }
      }
      sort_closure();
      for (Index op : closure_) {
        marked_[op] = 0;
        Mask leaves = 0;
        std::size_t result = 0;
        for (Index v : problem_.makes[op]) {
          if (!is_present(v)) {
            leaves |= bit(result);
            present.push_back(v);
          }
          ++result;
        }
        steps_.push_back({op, leaves});
      }
      closure_.clear();
      steps_.push_back(event_step(j));
    }
  }

  bool is_inside(Index v, const Block& block) const {
    return problem_.producer[v] >= block.begin && problem_.producer[v] < block.end;
  }

  void mark(Index v) {
    const Index op = operator_for(problem_, v, fate_[v]);
    if (marked_[op]) return;
    marked_[op] = 1;
    stack_.push_back(op);
  }

  void want(Index v, const Block& block) {
    if (problem_.fixed[v]) return;
    mark(v);
    while (!stack_.empty()) {
      const Index op = stack_.back();
      stack_.pop_back();
      closure_.push_back(op);
      if (op >= problem_.operators) continue;
      for (Index u : problem_.reads[op]) {
        if (is_inside(u, block) && !problem_.fixed[u]) mark(u);
      }
    }
  }

  void run_marked() {
    sort_closure();
    for (Index op : closure_) {
      marked_[op] = 0;
      Mask leaves = kAll;
      std::size_t result = 0;
      for (Index v : problem_.makes[op]) {
        if (problem_.fixed[v]) leaves &= ~bit(result);
        ++result;
      }
      steps_.push_back({op, leaves});
    }
    closure_.clear();
  }

  void sort_closure() {
    std::sort(closure_.begin(), closure_.end(),
              [&](Index a, Index b) { return problem_.rank[a] < problem_.rank[b]; });
  }

  const Problem& problem_;
  const BlockChain& chain_;
  Labels fate_;
  std::vector<char> marked_;
  std::vector<Index> stack_, closure_;
  Steps steps_;
  Index done_ = 0;
};

}  // namespace

Steps schedule_of(const Problem& problem, const BlockChain& blocks,
                  const std::vector<ChainStep>& plan) {
  Writer writer(problem, blocks, plan);
  for (const ChainStep& step : plan) writer.write(step);
  Steps steps = writer.take();
  move_to_unpacks(problem, steps);
  delete_dead(problem, steps);
  return steps;
}

}  // namespace reprise::planner
