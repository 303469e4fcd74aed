// SPDX-License-Identifier: BSD-3-Clause
#include "tape/offloads.h"

#include <chrono>
#include <exception>
#include <utility>

#include "meter/content_hash.h"
#include "torch/geometry.h"
#include "torch/warning.h"

namespace reprise::detail {
namespace {

/// Adds the time of its life.
class Waiting {
 public:
  explicit Waiting(double& milliseconds) : milliseconds_(milliseconds) {}
  ~Waiting() {
    milliseconds_ +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
            .count();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  double& milliseconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::vector<int32_t> FetchOrder::of(std::size_t sent) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (order_.size() == sent) return order_;
  }
  std::vector<int32_t> reversed(sent);
  for (std::size_t i = 0; i < sent; ++i) reversed[i] = static_cast<int32_t>(sent - 1 - i);
  return reversed;
}

void FetchOrder::learn(std::vector<int32_t> order) {
  const std::lock_guard<std::mutex> lock(mutex_);
  order_ = std::move(order);
}

Offloads::Offloads(Destination destination, std::shared_ptr<FetchOrder> order)
    : destination_(std::move(destination)), order_of_steps_(std::move(order)) {}

bool Offloads::admit(int64_t bytes) {
  ++summary_.seen;
  summary_.seen_bytes += bytes;
  if (bytes < destination_.options.min_bytes()) {
    ++summary_.skipped_small;
    return false;
  }
  const double part = destination_.options.fraction() * static_cast<double>(summary_.seen_bytes);
  if (static_cast<double>(admitted_bytes_ + bytes) > part) {
    ++summary_.skipped_fraction;
    return false;
  }
  ++admitted_;
  admitted_bytes_ += bytes;
  return true;
}

bool Offloads::has_room(int64_t bytes) {
  if (destination_.store.room() >= bytes) return true;
  ++summary_.skipped_full;
  return false;
}

Offloads::Slot Offloads::send(c10::Storage contents, c10::ScalarType dtype) {
  Sent sent;
  sent.bytes = static_cast<int64_t>(contents.nbytes());
  sent.device = contents.device();
  if (recomputes()) sent.hash = content_hash(bytes_of(contents));
  const auto holder = std::make_shared<c10::Storage>(std::move(contents));
  sent.contents = holder;
  Payload payload;
  payload.data = std::shared_ptr<const void>(holder, holder->data());
  payload.bytes = sent.bytes;
  payload.element_size = static_cast<int>(c10::elementSize(dtype));
  payload.float32 = dtype == c10::ScalarType::Float;
  const Waiting waiting(summary_.forward_wait_ms);
  try {
    sent.block = destination_.store.send(std::move(payload));
  } catch (const StoreError&) {
    ++summary_.skipped_full;
    return kNoSlot;
  }
  ++summary_.moved;
  summary_.moved_bytes += sent.bytes;
  sent_.push_back(std::move(sent));
  return static_cast<Slot>(sent_.size()) - 1;
}

void Offloads::end_forward(int64_t last, int64_t alive) {
  summary_.skipped_last += last;
  summary_.skipped_alive += alive;
}

// --- the backward pass ---

/// Without a fetch, if the store still holds what was sent.
bool Offloads::take_back(Sent& sent) {
  const auto contents = sent.contents.lock();
  if (!contents || !sent.block.payload()) return false;
  sent.target = *contents;
  ++summary_.returned;
  return true;
}

void Offloads::begin_fetch(Sent& sent) {
  if (!take_back(sent)) {
    c10::Storage storage = empty_like_storage(static_cast<std::size_t>(sent.bytes), sent.device);
    const auto target = std::make_shared<c10::Storage>(storage);
    sent.fetch = sent.block.fetch(std::shared_ptr<void>(target, target->mutable_data()));
    sent.target = std::move(storage);  // only now: a store may throw, and then nothing is coming
    ++summary_.fetched;
    summary_.fetched_bytes += sent.bytes;
  }
  ahead_ += sent.bytes;
}

void Offloads::end_fetch(Sent& sent) {
  if (!sent.target) return;
  ahead_ -= sent.bytes;
  sent.target = c10::Storage();
  sent.fetch = Fetch();
}

c10::Storage Offloads::fetch(Slot slot) {
  Sent& sent = sent_[static_cast<std::size_t>(slot)];
  if (sent.lost) return {};
  note_asked(slot);
  try {
    if (!sent.target) begin_fetch(sent);
    look_ahead();  // before the wait: transfers go on behind it
    const Waiting waiting(summary_.backward_wait_ms);
    if (sent.fetch) sent.fetch.wait();
  } catch (const StoreError& error) {
    end_fetch(sent);
    if (!recomputes()) throw;
    warn_once(error.file(), "reprise: a store did not bring a saved tensor back; it is recomputed. " +
                                std::string(error.what()));
    sent.lost = std::current_exception();
    sent.block = Block();
    ++summary_.recomputed;
    return {};
  }
  c10::Storage contents = sent.target;
  end_fetch(sent);
  return contents;
}

void Offloads::note_asked(Slot slot) {
  Sent& sent = sent_[static_cast<std::size_t>(slot)];
  if (sent.asked) return;
  sent.asked = true;
  asked_.push_back(slot);
  if (!place_in_it_.empty()) {
    next_ = std::max(next_, place_in_it_[static_cast<std::size_t>(slot)] + 1);
  }
}

void Offloads::look_ahead() {
  for (; next_ < order_.size(); ++next_) {
    Sent& sent = sent_[static_cast<std::size_t>(order_[next_])];
    if (sent.asked || sent.target || !sent.block) continue;
    const bool alone = ahead_ == 0;
    if (!alone && ahead_ + sent.bytes > destination_.options.fetch_ahead()) return;
    try {
      begin_fetch(sent);
    } catch (const std::exception&) {
      return;  // no memory now, or no store any more: whoever asks will see
    }
  }
}

void Offloads::check(Slot slot, const c10::Storage& contents) {
  const Sent& sent = sent_[static_cast<std::size_t>(slot)];
  if (sent.lost && content_hash(bytes_of(contents)) != sent.hash) std::rethrow_exception(sent.lost);
}

void Offloads::begin_pass() {
  end_pass();
  order_ = order_of_steps_->of(sent_.size());
  place_in_it_.assign(sent_.size(), 0);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    place_in_it_[static_cast<std::size_t>(order_[i])] = i;
  }
}

// What was fetched for nobody (a partial gradient) must not outlive the pass.
void Offloads::end_pass() {
  if (!asked_.empty() && asked_.size() == sent_.size()) order_of_steps_->learn(asked_);
  asked_.clear();
  for (Sent& sent : sent_) {
    sent.asked = false;
    end_fetch(sent);
  }
  next_ = 0;
  order_.clear();
  place_in_it_.clear();
}

void Offloads::release(Slot slot) {
  Sent& sent = sent_[static_cast<std::size_t>(slot)];
  end_fetch(sent);
  if (sent.block && sent.block.done()) {
    try {
      sent.block.wait();
    } catch (const StoreError&) {
      ++summary_.failed;
    }
  }
  sent.block = Block();
}

OffloadSummary Offloads::summary() const {
  OffloadSummary summary = summary_;
  const StoreStats stats = destination_.store.stats();
  summary.send_bandwidth = stats.send_bandwidth();
  summary.fetch_bandwidth = stats.fetch_bandwidth();
  return summary;
}

}  // namespace reprise::detail
