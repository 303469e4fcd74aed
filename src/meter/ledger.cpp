// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <limits>
#include <mutex>
#include <thread>

#include <reprise/error.h>
#include <reprise/ledger.h>
#include <reprise/meter.h>

#include "meter/block_log.h"
#include "meter/ledger_parts.h"
#include "meter/module_tracker.h"
#include "torch/backward_pass.h"
#include "torch/call_watch.h"
#include "torch/ivalues.h"
#include "torch/operator_info.h"

namespace reprise {
namespace {

using detail::BlockLog;
using detail::BlockRecord;

/// What operators and backward passes tell of blocks, for the log.
class Witness final : public detail::CallListener {
 public:
  explicit Witness(const LedgerOptions::Parts& parts) {
    for (const auto& known : parts.tensors) {
      if (known.category == Category::inputs) continue;
      tracker.know(known.tensor, tracker.index_of(known.module));
    }
  }

  void call_begins(const detail::WatchedCall& call) override {
    if (!call.outermost) return;
    BlockLog::enter_module(tracker.call_begins(call));
    detail::visit_tensors(call.function.inputs(), [](const at::Tensor& tensor) {
      BlockLog::instance().identify_old(tensor, Category::inputs);
    });
  }

  void call_ends(const detail::WatchedCall&) override {}

  void node_begins(const detail::WatchedNode& node) override {
    BlockLog::enter_module(tracker.node_begins(node));
    const int64_t pass = detail::current_pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (pass == last_pass_) return;
    last_pass_ = pass;
    if (!forward_has_ended_) BlockLog::instance().end_of_forward();
    forward_has_ended_ = false;
  }

  void node_ends(const detail::WatchedNode& node) override {
    if (node.leaf.defined()) {
      BlockLog::instance().identify(node.leaf.grad(), Category::gradients,
                                    std::max(0, tracker.module_of(node.leaf)));
    }
    BlockLog::enter_module(tracker.node_ends());
  }

  /// The program says that a backward pass comes.
  void forward_ends() {
    const std::lock_guard<std::mutex> lock(mutex_);
    BlockLog::instance().end_of_forward();
    forward_has_ended_ = true;
  }

  detail::ModuleTracker tracker;

 private:
  std::mutex mutex_;
  int64_t last_pass_ = detail::kNoPass;
  bool forward_has_ended_ = false;
};

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

const LedgerOptions::Parts& checked(const LedgerOptions& options) {
  const c10::Device device = options.parts().device;
  const Meter meter(device);  // throws for what cannot be measured at all
  if (!device.is_cpu()) {
    throw UsageError("Ledger: blocks can be told apart on the CPU only, not on " + device.str(),
                     "Meter and PeakScope measure live and peak bytes there");
  }
  return options.parts();
}

/// The categories of a recording's blocks, by what became of them.
class Hindsight {
 public:
  Hindsight(const BlockLog::Contents& contents, const std::vector<TimelineMark>& marks,
            bool unknown_state)
      : contents_(contents), marks_(marks), unknown_state_(unknown_state) {}

  Category category_of(const BlockRecord& block) const {
    if (block.known) return block.category;
    if (block.made < 0) return Category::other;
    const int64_t freed = block.freed < 0 ? kNever : block.freed;
    const auto phase = static_cast<std::size_t>(block.phase);
    const std::string& name = marks_[phase].name;
    if (name == "data" && freed >= (phase + 1 < marks_.size() ? marks_[phase + 1].event : kNever)) {
      return Category::inputs;
    }
    if (block.replay != 0) {
      return block.freed_in_replay ? Category::temporaries : Category::replayed;
    }
    if (block.in_backward) return Category::temporaries;
    const auto& ends = contents_.forward_ends;
    const auto end = std::upper_bound(ends.begin(), ends.end(), block.made);
    if (end != ends.end()) return freed >= *end ? Category::saved : Category::temporaries;
    if (name == "optimizer" && freed == kNever && unknown_state_) return Category::optimizer_state;
    const bool forward = name != "optimizer" && name != "backward";
    return forward && freed == kNever ? Category::saved : Category::temporaries;
  }

 private:
  const BlockLog::Contents& contents_;
  const std::vector<TimelineMark>& marks_;
  const bool unknown_state_;
};

}  // namespace

struct Ledger::State {
  explicit State(const LedgerOptions& options) : options(options), witness(checked(options)) {
    if (!BlockLog::instance().begin()) {
      throw UsageError("a ledger was begun while another one records",
                       "stop the other one first: a block of memory has one record");
    }
    watch.emplace(witness);
    BlockLog::enter_module(0);
    for (const auto& known : options.parts().tensors) {
      BlockLog::instance().identify(known.tensor, known.category,
                                    std::max(0, witness.tracker.module_of(known.tensor)));
    }
    look_for_state();
    mark("start");
  }

  ~State() {
    if (watch) end();
  }

  void end() {
    watch.reset();
    BlockLog::instance().end();
  }

  void require_thread(const char* what) const {
    if (!watch) throw UsageError(std::string(what) + " after stop()", "make a new ledger");
    if (thread != std::this_thread::get_id()) {
      throw UsageError(std::string(what) + " on another thread than the one that began it",
                       "use a ledger where it began");
    }
  }

  /// Gradients and optimizer state as they stand now.
  void look_for_state() {
    for (const auto& known : options.parts().tensors) {
      if (known.category != Category::parameters) continue;
      BlockLog::instance().identify(known.tensor.grad(), Category::gradients,
                                    std::max(0, witness.tracker.module_of(known.tensor)));
    }
    unknown_state = false;
    for (const torch::optim::Optimizer* optimizer : options.parts().optimizers) {
      const bool all = detail::visit_state(*optimizer, [](const at::Tensor& tensor) {
        BlockLog::instance().identify(tensor, Category::optimizer_state, 0);
      });
      unknown_state = unknown_state || !all;
    }
  }

  void mark(const std::string& name) {
    BlockLog& log = BlockLog::instance();
    if (!marks.empty()) log.next_phase();
    marks.push_back({name, log.event_count(), log.milliseconds(), resident_bytes()});
  }

  Timeline timeline() const {
    const BlockLog::Contents contents = BlockLog::instance().contents();
    const Hindsight hindsight(contents, marks, unknown_state);
    Timeline result;
    result.device = options.parts().device.str();
    result.marks = marks;
    result.blocks.reserve(contents.blocks.size() + 1);
    for (const BlockRecord& record : contents.blocks) {
      MemoryBlock block;
      block.bytes = record.bytes;
      block.category = hindsight.category_of(record);
      block.made = record.made;
      block.freed = record.freed;
      if (record.op != nullptr) block.op = record.op->name;
      block.module = witness.tracker.path(record.module);
      block.phase = record.made < 0 ? "" : marks[static_cast<std::size_t>(record.phase)].name;
      result.blocks.push_back(std::move(block));
    }
    if (contents.base_bytes != 0) {
      MemoryBlock rest;  // all that was there and has never been heard of since
      rest.bytes = contents.base_bytes;
      result.blocks.push_back(std::move(rest));
    }
    result.events.reserve(contents.events.size());
    for (const BlockLog::Entry& event : contents.events) {
      result.events.push_back({event.block, event.made, event.ms});
    }
    return result;
  }

  const LedgerOptions options;  // keeps the tensors alive, and so their storages' addresses
  const std::thread::id thread = std::this_thread::get_id();
  Witness witness;
  std::optional<detail::CallWatch> watch;
  std::vector<TimelineMark> marks;
  bool unknown_state = false;  // of a class that cannot be looked into
};

Ledger::Ledger(const LedgerOptions& options) : state_(std::make_unique<State>(options)) {}

Ledger::~Ledger() = default;

void Ledger::mark(const std::string& name) {
  state_->require_thread("Ledger: mark()");
  state_->look_for_state();
  state_->mark(name);
  if (name == "backward") state_->witness.forward_ends();
}

CategoryBytes Ledger::now() const {
  state_->require_thread("Ledger: now()");
  state_->look_for_state();
  return state_->timeline().at(kNever - 1);
}

int64_t Ledger::events() const { return BlockLog::instance().event_count(); }

Timeline Ledger::stop() {
  state_->require_thread("Ledger: stop()");
  state_->look_for_state();
  state_->mark("stop");
  Timeline timeline = state_->timeline();
  state_->end();
  return timeline;
}

}  // namespace reprise
