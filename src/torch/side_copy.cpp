// SPDX-License-Identifier: BSD-3-Clause
#include "torch/side_copy.h"

#include <mutex>
#include <unordered_map>

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "torch/geometry.h"

namespace reprise::detail {
namespace {

/// One for each device and the process: copies queue up there.
c10::Stream side_stream(c10::Device device) {
  static auto& mutex = *new std::mutex;
  static auto& streams = *new std::unordered_map<c10::Device, c10::Stream>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = streams.find(device);
  if (known != streams.end()) return known->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace(device, guard.getStreamFromGlobalPool(device, /*isHighPriority=*/false))
      .first->second;
}

}  // namespace

struct SideCopy::State {
  explicit State(c10::Device where) : device(where), ended(where.type()) {}
  const c10::Device device;
  c10::Event ended;
};

SideCopy::SideCopy(const c10::Storage& from, const c10::Storage& to, c10::Device device)
    : state_(std::make_shared<State>(device)) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream side = side_stream(device);
  // The current stream is asked for here, on the thread that works: under another stream's guard
  // the answer would be that one, and nothing would be waited for.
  c10::Event ready(device.type());
  ready.record(guard.getStream(device));
  ready.block(side);
  {
    const c10::StreamGuard on_the_side(side);
    bytes_of(to).copy_(bytes_of(from), /*non_blocking=*/true);
  }
  // The device's side of the copy belongs to the current stream: its allocator must know that
  // another one uses it, or gives the memory away too early.
  const c10::Storage& on_device = from.device() == device ? from : to;
  guard.recordDataPtrOnStream(on_device.data_ptr(), side);
  state_->ended.record(side);
}

SideCopy SideCopy::to_host(const c10::Storage& from, const c10::Storage& host) {
  return SideCopy(from, host, from.device());
}

SideCopy SideCopy::to_device(const c10::Storage& host, const c10::Storage& to) {
  return SideCopy(host, to, to.device());
}

bool SideCopy::done() const { return state_->ended.query(); }

void SideCopy::wait() const { state_->ended.synchronize(); }

void SideCopy::wait_on_stream() const {
  const c10::impl::VirtualGuardImpl guard(state_->device.type());
  state_->ended.block(guard.getStream(state_->device));
}

bool has_pinned_memory() {
  static const bool answer = [] {
    try {
      at::empty({1}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  }();
  return answer;
}

c10::Storage pinned_storage(std::size_t bytes) {
  const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(has_pinned_memory());
  return at::empty({static_cast<int64_t>(bytes)}, options).storage();
}

}  // namespace reprise::detail
