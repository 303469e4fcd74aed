// SPDX-License-Identifier: BSD-3-Clause
#include "budget/room.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>

#include <reprise/plan.h>

#include "budget/limits.h"
#include "meter/accelerator_memory.h"
#include "meter/call_room.h"
#include "meter/process_allocator.h"
#include "tape/held_set.h"
#include "tape/in_flight.h"
#include "tape/running_operator.h"
#include "tape/stack.h"
#include "torch/backward_pass.h"
#include "torch/geometry.h"
#include "torch/out_of_memory.h"

namespace reprise::detail {
namespace {

/// What this thread is doing, as far as tapes and autograd know.
struct Culprit {
  std::string op;
  std::string text;  // with the sizes of its arguments
};

Culprit find_culprit() {
  Culprit culprit;
  if (const RunningOperator* running = RunningOperator::innermost()) {
    culprit.op = running->info().full_name();
    std::string sizes;
    for (const c10::IValue& argument : running->arguments()) {
      visit_tensors(argument, [&](const at::Tensor& tensor) {
        if (!tensor.defined() || !has_plain_storage(tensor)) return;
        sizes += (sizes.empty() ? "" : ", ") + Geometry(tensor).str();
      });
    }
    culprit.text = culprit.op + (sizes.empty() ? "" : " of " + sizes);
  } else {
    culprit.op = culprit.text = current_node_name();
  }
  return culprit;
}

/// What a step as the last measured one needs, planned; 0 if that is not known.
int64_t least_of_a_step(LimitedMemory& memory) {
  const auto last = Limits::of(memory).last_step();
  if (!last) return 0;
  PlanOptions quick;
  quick.evaluations = 0;
  quick.bound = false;
  try {
    return last->base + least_budget(last->trace, quick).plan.peak_bytes;
  } catch (const std::exception&) {
    return 0;
  }
}

// However busy a disk is, room that it will make is better than an error.
constexpr std::chrono::minutes kLong(1);
constexpr std::chrono::milliseconds kSoon(100);  // then others may have made room, too

class RoomByDropping final : public RoomMaker {
 public:
  void make_room(LimitedMemory& memory, int64_t bytes) override {
    TORCH_INTERNAL_ASSERT(!in_held_sets(), "reprise: an allocation under the lock of held sets");
    int64_t droppable = 0;
    // What leaves for a store makes room without a replay.
    if (bytes_in_flight() > 0 && wait_for_room(memory, bytes)) return;
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (true) {
      const bool leaving = &memory == &process_allocator() && bytes_in_flight() > 0;
      if (drop_for(memory, bytes, droppable)) return;
      if (!leaving || std::chrono::steady_clock::now() >= end) break;
      wait_for_arrival(kSoon);
    }
    if (std::uncaught_exceptions() > 0) {  // in a destructor: another one would end the process
      memory.reserve_above(bytes);
      memory.count_overrun();
      return;
    }
    const int64_t live = memory.live();
    const int64_t limit = memory.limit();
    const int64_t pinned = std::max<int64_t>(live - droppable, 0);
    const int64_t least = std::max(pinned + bytes, least_of_a_step(memory));
    const Culprit culprit = find_culprit();
    LastInfeasible& last = last_infeasible();
    ++last.count;
    last.error = BudgetInfeasible("a budget of " + text_of_bytes(limit) + " is too small: " +
                                      (culprit.text.empty() ? "an allocation" : culprit.text) +
                                      " needs " + text_of_bytes(bytes) + " beside " +
                                      text_of_bytes(pinned) + " that nothing can be dropped of",
                                  "give the budget " + text_of_bytes(least) +
                                      " or more, what lives before a step included "
                                      "(least_budget() of a trace_step() says what a whole step "
                                      "needs), or take the batch in smaller parts and accumulate, "
                                      "or offload with a Scope (Policy::offload())",
                                  limit, least, culprit.op);
    throw last.error;
  }

  void make_some_room(LimitedMemory& memory, int64_t bytes) noexcept override {
    if (in_held_sets()) return;
    drop_some(memory, memory.live() - memory.limit() + bytes, /*waits=*/true);
  }
};

/// An allocator, whose lock this thread holds, has nothing that fits: is the device full?
bool drop_when_out_of_memory() noexcept {
  constexpr int64_t kLeast = 32 << 20;  // what no operator has said before
  if (in_held_sets()) return false;
  AcceleratorMemory* memory = AcceleratorMemory::in_use();
  if (memory == nullptr) return false;
  const int64_t needed = std::max(CallRoom::needed_now(), kLeast);
  return memory->free_bytes() < needed && drop_some(*memory, needed, /*waits=*/false) > 0;
}

}  // namespace

void install_room_maker(LimitedMemory& memory) {
  static auto& maker = *new RoomByDropping;  // memory is allocated after main(), too
  memory.set_room_maker(&maker);
  if (&memory != &process_allocator()) when_out_of_memory(&drop_when_out_of_memory);
}

LastInfeasible& last_infeasible() {
  thread_local LastInfeasible last;
  return last;
}

std::string text_of_bytes(int64_t bytes) {
  std::array<char, 64> text{};
  double size = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (size < 1024) break;
    size /= 1024;
    unit = larger;
  }
  std::snprintf(text.data(), text.size(), "%lld bytes (%.1f %s)", static_cast<long long>(bytes),
                size, unit);
  return text.data();
}

}  // namespace reprise::detail
