// SPDX-License-Identifier: BSD-3-Clause
#include "runner.h"

#include <iomanip>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include <reprise/equality.h>
#include <reprise/meter.h>

#include "frame.h"
#include "meter/process_allocator.h"
#include "offloading.h"
#include "operators.h"
#include "planned.h"
#include "tape/current.h"
#include "tape/decider.h"
#include "tape/held_set.h"

namespace reprise::fuzz {
namespace {

using detail::Decision;
using detail::ValueInfo;

class DropAll : public detail::Decider {
 public:
  Decision decide(const ValueInfo&) override { return Decision::recompute; }
  bool hold(const ValueInfo&) override { return false; }
  void distrust(const ValueInfo&) override { distrusted = true; }
  bool distrusted = false;
};

class Random final : public DropAll {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  Decision decide(const ValueInfo&) override {
    const auto draw = random_() % 4;
    return draw == 0 ? Decision::keep : draw == 1 ? Decision::encode : Decision::recompute;
  }
  bool hold(const ValueInfo&) override { return random_() % 4 == 0; }

 private:
  std::mt19937_64 random_;
};

/// Much goes to a store.
class Offload final : public DropAll {
 public:
  Offload(uint64_t seed, bool faults) : offloading(seed, faults), random_(seed) {}
  Decision decide(const ValueInfo&) override {
    const auto draw = random_() % 8;
    return draw == 0   ? Decision::keep
           : draw == 1 ? Decision::encode
           : draw == 2 ? Decision::recompute
                       : Decision::offload;
  }
  bool hold(const ValueInfo&) override { return random_() % 8 == 0; }
  Offloading offloading;

 private:
  std::mt19937_64 random_;
};

/// Whatever is saved yields, and the allocator makes room at random.
class Yield : public DropAll {
 public:
  explicit Yield(bool short_of_room) : short_of_room(short_of_room) {}
  Decision decide(const ValueInfo&) override { return Decision::yield; }
  bool short_of_room;
};

/// Follows plans where there are some.
class Planned final : public Yield {
 public:
  explicit Planned(uint64_t seed) : Yield(/*short_of_room=*/false), plans(seed) {}
  Plans plans;
};

/// While it lives, every allocation may drop some of what tapes hold: as if memory were short at
/// that moment. Nothing is refused.
class RoomIsShort final : public detail::RoomMaker {
 public:
  explicit RoomIsShort(uint64_t seed) : random_(seed) {
    allocator_.set_room_maker(this);
    allocator_.set_limit(0);
  }
  ~RoomIsShort() override {
    allocator_.set_limit(detail::LimitedMemory::kUnlimited);
    allocator_.set_room_maker(nullptr);
  }
  RoomIsShort(const RoomIsShort&) = delete;
  RoomIsShort& operator=(const RoomIsShort&) = delete;

  void make_room(detail::LimitedMemory& memory, int64_t bytes) override {
    const auto drops = random_() % 2 == 0 ? random_() % 4 : 0;
    for (auto i = drops; i > 0; --i) {
      memory.set_limit(memory.live() - 1);
      int64_t droppable = 0;
      if (detail::drop_for(memory, 0, droppable)) memory.cancel(0);
    }
    memory.set_limit(0);
    memory.reserve_above(bytes);
  }
  void make_some_room(detail::LimitedMemory&, int64_t) noexcept override {}

 private:
  detail::LimitedMemory& allocator_ = detail::process_allocator();
  std::mt19937_64 random_;
};

struct Outcome {
  std::string trace;
  bool has_loss = true;
  std::vector<Tensor> results;
  std::string error;  // of the loss or the backward pass
  int refused = 0;
};

/// The scopes that are open, outermost first.
class Scopes {
 public:
  Scopes(const Program& program, std::shared_ptr<detail::Decider> decider, bool audit)
      : program_(program), decider_(std::move(decider)), audit_(audit) {}
  ~Scopes() { move_to({}); }
  Scopes(const Scopes&) = delete;
  Scopes& operator=(const Scopes&) = delete;

  void move_to_slot(int slot) {
    if (decider_) move_to(scopes_around(program_, slot));
  }
  void close() { move_to({}); }

 private:
  void move_to(const std::vector<int>& wanted) {
    while (open_.size() > wanted.size() ||
           (!open_.empty() && open_.back().first != wanted[open_.size() - 1])) {
      open_.pop_back();
    }
    while (open_.size() < wanted.size()) {
      detail::TapeOptions options{.audit = audit_};
      if (dynamic_cast<Yield*>(decider_.get())) {
        options.room = std::make_shared<detail::Room>(detail::process_allocator());
      }
      if (auto* planned = dynamic_cast<Planned*>(decider_.get())) {
        options.guide = planned->plans.next_guide();
      }
      if (auto* offload = dynamic_cast<Offload*>(decider_.get())) {
        options.offloads = offload->offloading.next_offloads();
      }
      auto tape = std::make_shared<detail::Tape>(decider_, std::move(options));
      open_.emplace_back(wanted[open_.size()], std::make_unique<detail::Recording>(tape));
    }
  }

  const Program& program_;
  const std::shared_ptr<detail::Decider> decider_;
  const bool audit_;
  std::vector<std::pair<int, std::unique_ptr<detail::Recording>>> open_;
};

bool ends_inside(Ending ending) {
  return ending == Ending::inside || ending == Ending::second_order_inside;
}

void append(std::vector<Tensor>& all, const std::vector<Tensor>& more) {
  for (const Tensor& t : more) all.push_back(t.defined() ? t.detach() : t);
}

void backward(const Program& program, const std::vector<Tensor>& leaves, Tensor& loss,
              std::vector<Tensor>& results) {
  const auto grad = [&](const Tensor& of, bool retain, bool create) {
    return torch::autograd::grad({of}, leaves, {}, retain, create, /*allow_unused=*/true);
  };
  switch (program.ending) {
    case Ending::dropped:
      break;
    case Ending::inside:
    case Ending::backward:
      append(results, grad(loss, false, false));
      break;
    case Ending::twice:
      append(results, grad(loss, true, false));
      append(results, grad(loss, false, false));
      break;
    case Ending::second_order:
    case Ending::second_order_inside: {
      auto first = grad(loss, true, true);
      append(results, first);
      Tensor bent;
      for (const Tensor& g : first) {
        if (!g.defined() || !g.requires_grad()) continue;
        const Tensor term = g.sin().sum().to(at::kDouble);
        bent = bent.defined() ? bent + term : term;
      }
      first.clear();
      if (bent.defined()) append(results, grad(bent, false, false));
      break;
    }
  }
  loss = Tensor();
}

Outcome execute_here(const Program& program, std::shared_ptr<detail::Decider> decider, bool audit) {
  torch::manual_seed(mix(program.seed, 9));
  Frame frame(program.seed);
  Outcome outcome;
  std::vector<Tensor> alive;
  Tensor loss;
  try {
    Scopes scopes(program, std::move(decider), audit);
    for (const Instruction& instruction : program.instructions) {
      scopes.move_to_slot(instruction.slot);
      frame.run(instruction);
    }
    scopes.move_to_slot(program.length);
    loss = frame.loss(program.seed);
    outcome.trace = frame.trace;
    outcome.refused = frame.refused;
    outcome.has_loss = loss.defined();
    if (!loss.defined()) return outcome;
    // What the program lets go of before the scope ends can go to a store.
    const bool lets_go = mix(program.seed, 16) % 4 != 0;
    if (!lets_go && !ends_inside(program.ending)) scopes.close();
    outcome.results = frame.outputs();
    outcome.results.push_back(loss.detach());
    for (const Entry& entry : frame.pool) {
      if (program.keep_some && mix(program.seed, entry.key) % 4 == 0) alive.push_back(entry.tensor);
    }
    frame.pool.clear();
    if (mix(program.seed, 17) % 2 == 0) outcome.results.push_back(at::zeros({}));
    if (!ends_inside(program.ending)) scopes.close();
    if (program.late_write) {
      const torch::NoGradGuard guard;
      frame.input.add_(1);
    }
    backward(program, frame.leaves, loss, outcome.results);
  } catch (const std::exception& error) {
    outcome.error = error.what();
    outcome.error = outcome.error.substr(0, 300);
  }
  append(outcome.results,
         {frame.buffer.clone(), frame.mean.clone(), frame.variance.clone(),
          frame.generator.get_state(), at::detail::getDefaultCPUGenerator().get_state()});
  return outcome;
}

class Silence final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

/// On a thread of its own: a backward pass that raises leaves work in the thread's queue, and with
/// it tensors, for as long as the thread lives.
Outcome execute(const Program& program, const std::shared_ptr<detail::Decider>& decider,
                bool audit) {
  Outcome outcome;
  std::thread([&] {
    std::optional<RoomIsShort> short_of_room;
    const auto* yield = dynamic_cast<Yield*>(decider.get());
    if (yield && yield->short_of_room) short_of_room.emplace(mix(program.seed, 12));
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    at::set_num_threads(1);
    outcome = execute_here(program, decider, audit);
  }).join();
  return outcome;
}

/// Whether something that was made outside of a scope may be written to after it. That is legal
/// where autograd has not saved it, and where only a replay reads it, the replay must say so.
bool may_refuse(const Program& program) { return program.late_write || program.cut != Cut::whole; }

/// What differs; empty if nothing does. `complained` is set where a replay rightly refused.
std::string compare(const Program& program, const Outcome& plain, const Outcome& ours,
                    bool& complained) {
  if (is_injected(ours.error)) return {};
  if (plain.trace != ours.trace) return "the forward pass took another way:\n" + ours.trace;
  // Where everything is dropped again and again, replays may come to no end.
  if (plain.error.empty() && ours.error.find("operators again as") != std::string::npos) {
    complained = true;
    return {};
  }
  if (may_refuse(program) && plain.error.empty() && !ours.error.empty()) {
    const bool says_so = ours.error.find("that a replay reads was changed") != std::string::npos;
    complained |= says_so;
    return says_so ? "" : "raised: " + ours.error;
  }
  if (plain.error.empty() != ours.error.empty()) {
    return plain.error.empty() ? "raised: " + ours.error
                               : "did not raise, but plain: " + plain.error;
  }
  if (!plain.error.empty()) return {};
  if (plain.results.size() != ours.results.size()) return "another number of results";
  for (std::size_t i = 0; i < plain.results.size(); ++i) {
    if (bit_equal(plain.results[i], ours.results[i])) continue;
    std::ostringstream out;
    out << "result " << i << " of " << plain.results.size() << " differs:\n"
        << plain.results[i] << "\n"
        << ours.results[i];
    return out.str();
  }
  return {};
}

}  // namespace

Finding check(const Program& program) {
  Finding finding;
  const Outcome plain = execute(program, nullptr, false);
  finding.trace = plain.trace;
  finding.instructions = static_cast<int>(program.instructions.size());
  finding.refused = plain.refused;
  if (!plain.has_loss) {
    finding.verdict = Verdict::skipped;
    return finding;
  }
  if (!plain.error.empty()) {
    finding.verdict = Verdict::both_raise;
    finding.what = plain.error;
  }
  const auto differs = [&](const std::string& name, const std::shared_ptr<DropAll>& decider,
                           bool audit) {
    const int64_t base = Meter().live();
    std::string what =
        compare(program, plain, execute(program, decider, audit), finding.complained);
    const int64_t left = Meter().live() - base;
    if (what.empty() && decider->distrusted && !program.late_write)
      what = "a replay gave other bits";
    if (what.empty() && left != 0) what = std::to_string(left) + " bytes are still alive";
    if (what.empty()) return false;
    finding.verdict = Verdict::differs;
    finding.what = name + ": " + what;
    return true;
  };
  if (differs("drop all", std::make_shared<DropAll>(), false)) return finding;
  if (differs("random", std::make_shared<Random>(mix(program.seed, 11)), false)) return finding;
  if (differs("short of room", std::make_shared<Yield>(true), false)) return finding;
  const auto planned = std::make_shared<Planned>(mix(program.seed, 13));
  if (differs("measured", planned, false)) return finding;
  planned->plans.make();
  planned->plans.rewind();
  if (differs("planned", planned, false)) return finding;
  finding.followed = planned->plans.followed();
  planned->plans.rewind();
  planned->short_of_room = true;
  if (differs("planned and short of room", planned, false)) return finding;
  if (mix(program.seed, 10) % 4 == 0 && differs("audit", std::make_shared<DropAll>(), true)) {
    return finding;
  }
  const auto offload = std::make_shared<Offload>(mix(program.seed, 14), /*faults=*/false);
  const auto offloads_well = [&](const std::string& name, const std::shared_ptr<Offload>& decider) {
    if (differs(name, decider, false)) return false;
    const std::string complaint = decider->offloading.complaint();
    if (complaint.empty()) return true;
    finding.verdict = Verdict::differs;
    finding.what = name + ": " + complaint;
    return false;
  };
  if (!offloads_well("offload", offload)) return finding;
  finding.fetched = offload->offloading.fetched();
  const auto faulty = std::make_shared<Offload>(mix(program.seed, 15), /*faults=*/true);
  for (int run = 0; run < 2; ++run) {  // each meets with other faults
    if (!offloads_well("offload with faults", faulty)) return finding;
  }
  finding.faults = faulty->offloading.injected();
  return finding;
}

Program shrink(const Program& program) {
  Program smallest = program;
  const auto fails = [](const Program& p) { return check(p).verdict == Verdict::differs; };
  // First halves and quarters, then one at a time, until nothing more can go.
  for (std::size_t chunk = program.instructions.size(); chunk >= 1;) {
    bool smaller = false;
    for (std::size_t from = 0; from < smallest.instructions.size();) {
      Program fewer = smallest;
      const auto first = fewer.instructions.begin() + static_cast<int64_t>(from);
      const auto n = std::min(chunk, fewer.instructions.size() - from);
      fewer.instructions.erase(first, first + static_cast<int64_t>(n));
      if (fails(fewer)) {
        smallest = std::move(fewer);
        smaller = true;
      } else {
        from += chunk;
      }
    }
    if (chunk > 1) {
      chunk /= 2;
    } else if (!smaller) {
      break;
    }
  }
  return smallest;
}

std::string explain(const Program& program) {
  const Program small = shrink(program);
  const Finding finding = check(small);
  std::ostringstream out;
  out << "reprise_fuzz --seed " << program.seed << " --keep ";
  if (small.instructions.empty()) out << "none";
  for (std::size_t i = 0; i < small.instructions.size(); ++i) {
    out << (i ? "," : "") << small.instructions[i].slot;
  }
  out << "\n" << describe(small) << "\n" << finding.trace << finding.what << "\n";
  return out.str();
}

void Tally::add(const Finding& finding) {
  ++programs;
  instructions += finding.instructions;
  refused += finding.refused;
  complained += finding.complained;
  followed += finding.followed;
  fetched += finding.fetched;
  faults += finding.faults;
  switch (finding.verdict) {
    case Verdict::same:
      ++same;
      break;
    case Verdict::both_raise:
      ++both_raise;
      break;
    case Verdict::skipped:
      ++skipped;
      break;
    case Verdict::differs:
      ++differ;
      break;
  }
}

std::string Tally::str() const {
  std::ostringstream out;
  out << programs << " programs of " << operators().size() << " operators: " << same
      << " the same, " << both_raise << " raise either way, " << skipped << " skipped, " << differ
      << " differ; " << followed << " tapes followed a plan; " << fetched
      << " values came back from a store; " << faults << " faults of stores; " << complained
      << " complain of a late write; " << refused << " of " << instructions
      << " instructions found no operand";
  return out.str();
}

}  // namespace reprise::fuzz
