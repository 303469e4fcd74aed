// SPDX-License-Identifier: BSD-3-Clause
#include "meter/call_room.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <ATen/core/Tensor.h>

#include "base/mix.h"
#include "meter/accelerator_memory.h"
#include "torch/all_calls.h"
#include "torch/geometry.h"
#include "torch/ivalues.h"

namespace reprise::detail {
namespace {

constexpr std::size_t kMeasurements = 3;     // of which the largest counts
constexpr std::size_t kMaxEntries = 100000;  // shapes that vary for ever must not fill the memory

/// What calls of one kind have needed.
struct Needed {
  std::array<int64_t, kMeasurements> bytes{};  // of the last ones
  std::size_t times = 0;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, Needed> calls;
  std::unordered_map<const OperatorInfo*, double> most;  // for each byte of arguments, at any sizes
};

Table& table() {
  static auto& table = *new Table;
  return table;
}

thread_local CallRoom* innermost = nullptr;

/// What the arguments of a call say.
struct Arguments {
  explicit Arguments(const OperatorInfo& op, c10::ArrayRef<c10::IValue> arguments)
      : key(reinterpret_cast<uintptr_t>(&op)) {
    visit_tensors(arguments, [&](const at::Tensor& tensor) { see(tensor); });
    for (const c10::IValue& argument : arguments) {
      if (argument.isDevice()) see(argument.toDevice());
      if (argument.isInt()) mix(key, static_cast<uint64_t>(argument.toInt()));
      if (argument.isBool()) mix(key, argument.toBool() ? 2 : 1);
      if (argument.isIntList()) {
        for (const int64_t number : argument.toIntVector()) mix(key, static_cast<uint64_t>(number));
      }
    }
  }

  void see(c10::Device where) {
    if (!device && !where.is_cpu() && where.has_index()) device = where;
  }

  void see(const at::Tensor& tensor) {
    if (!has_plain_storage(tensor)) return;
    see(tensor.device());
    for (const int64_t size : tensor.sizes()) mix(key, static_cast<uint64_t>(size));
    mix(key, static_cast<uint64_t>(tensor.scalar_type()));
    if (!tensor.device().is_cpu()) bytes += static_cast<int64_t>(tensor.nbytes());
  }

  uint64_t key;
  std::optional<c10::Device> device;  // that the operator runs on
  int64_t bytes = 0;                  // of tensors there
};

bool makes_only_views(const OperatorInfo& op) {
  return op.returns > 0 && op.aliases.size() == op.returns && op.writes.empty();
}

}  // namespace

std::atomic<int> CallRoom::watches_{0};

CallRoom::CallRoom(const OperatorInfo& op, c10::ArrayRef<c10::IValue> arguments, bool refuses)
    : outer_(innermost), op_(op) {
  if (!in_force() || makes_only_views(op)) return;
  const Arguments seen(op, arguments);
  if (!seen.device) return;
  AcceleratorMemory& memory = AcceleratorMemory::of(*seen.device);
  if (memory.limit() >= LimitedMemory::kWatched) return;
  key_ = seen.key;
  argument_bytes_ = seen.bytes;
  const bool known = look_up();
  RoomMaker* maker = memory.room_maker();
  if (maker != nullptr && !memory.try_reserve(needed_)) {
    if (known && refuses) {
      maker->make_room(memory, needed_);
    } else {
      maker->make_some_room(memory, needed_);
    }
  }
  memory.take_peak();
  if (outer_ != nullptr) outer_->repeated_ = outer_->repeated_ || outer_->key_ == key_;
  live_ = memory.live();
  memory_ = &memory;
  innermost = this;
}

/// False if it is a guess.
bool CallRoom::look_up() {
  Table& known = table();
  const std::lock_guard<std::mutex> lock(known.mutex);
  const auto call = known.calls.find(key_);
  is_new_ = call == known.calls.end() || call->second.times < kMeasurements;
  if (call != known.calls.end()) {
    needed_ = *std::max_element(call->second.bytes.begin(), call->second.bytes.end());
    return true;
  }
  const auto most = known.most.find(&op_);
  const double part = most == known.most.end() ? 1 : most->second;
  needed_ = static_cast<int64_t>(part * static_cast<double>(argument_bytes_));
  return false;
}

CallRoom::~CallRoom() {
  if (memory_ == nullptr) return;
  memory_->take_peak();
  innermost = outer_;
  const int64_t peak = peak_;
  if (outer_ != nullptr) saw(*memory_, peak);
  if (repeated_) return;  // the same call, one level further in, has taken it
  if (peak > memory_->limit()) memory_->count_overrun();
  const int64_t bytes = std::max<int64_t>(peak - live_, 0);
  Table& known = table();
  const std::lock_guard<std::mutex> lock(known.mutex);
  if (known.calls.size() > kMaxEntries) known.calls.clear();
  Needed& call = known.calls[key_];
  call.bytes.at(call.times++ % kMeasurements) = bytes;
  if (argument_bytes_ == 0) return;
  double& most = known.most[&op_];
  most = std::max(most, static_cast<double>(bytes) / static_cast<double>(argument_bytes_));
}

void CallRoom::saw(const AcceleratorMemory& memory, int64_t peak) {
  if (innermost == nullptr || innermost->memory_ != &memory) return;
  innermost->peak_ = std::max(innermost->peak_, peak);
}

int64_t CallRoom::needed_now() { return innermost == nullptr ? 0 : innermost->needed_; }

namespace {

struct Watched final : DuringCall {
  Watched(const OperatorInfo& op, c10::ArrayRef<c10::IValue> arguments)
      : room(op, arguments, /*refuses=*/false) {}
  CallRoom room;
};

// What is composed of others needs what these need.
std::unique_ptr<DuringCall> make_room_for(const OperatorInfo& op,
                                          c10::ArrayRef<c10::IValue> arguments) {
  return std::make_unique<Watched>(op, arguments);
}

}  // namespace

void CallRoom::watch(bool on) {
  static auto& mutex = *new std::mutex;
  static auto& calls = *new std::optional<AllCalls>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (on && watches_.fetch_add(1) == 0) calls.emplace(&make_room_for);
  if (!on && watches_.fetch_sub(1) == 1) calls.reset();
}

}  // namespace reprise::detail
