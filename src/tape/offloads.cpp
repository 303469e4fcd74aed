// SPDX-License-Identifier: BSD-3-Clause
#include "tape/offloads.h"

#include <algorithm>
#include <utility>

#include "meter/content_hash.h"
#include "offload/stopwatch.h"
#include "torch/geometry.h"
#include "torch/warning.h"

namespace reprise::detail {
namespace {

// What is fetched ahead counts in the peak: little of a small step, as much of a large one as a
// disk needs to keep up.
constexpr int64_t kMostAhead = int64_t{32} << 20;
constexpr int64_t kPartAhead = 8;

/// Adds the time of its life.
class Waiting {
 public:
  explicit Waiting(double& milliseconds) : milliseconds_(milliseconds) {}
  ~Waiting() { milliseconds_ += watch_.ms(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  double& milliseconds_;
  const Stopwatch watch_;
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
  if (recomputes()) sent.hash = content_hash(bytes_of(contents));
  const Waiting waiting(summary_.forward_wait_ms);
  try {
    sent.storage = std::make_unique<StoredStorage>(destination_.store, std::move(contents), dtype);
  } catch (const StoreError&) {
    ++summary_.skipped_full;
    return kNoSlot;
  }
  ++summary_.moved;
  summary_.moved_bytes += sent.storage->bytes();
  sent_.push_back(std::move(sent));
  return static_cast<Slot>(sent_.size()) - 1;
}

void Offloads::go_on() {
  if (arriving_ == sent_.size()) return;  // asked at every operator
  const Waiting waiting(summary_.forward_wait_ms);
  for (; arriving_ < sent_.size(); ++arriving_) {
    StoredStorage* storage = sent_[arriving_].storage.get();
    if (storage == nullptr) continue;
    storage->go_on();
    if (storage->is_leaving()) return;  // copies end in the order in which they began
  }
}

void Offloads::end_forward(int64_t last, int64_t alive) {
  summary_.skipped_last += last;
  summary_.skipped_alive += alive;
}

// --- the backward pass ---

void Offloads::begin_fetch(Slot slot) {
  StoredStorage& storage = *at(slot).storage;
  if (storage.is_fetching()) return;
  if (storage.begin_fetch()) {
    ++summary_.fetched;
    summary_.fetched_bytes += storage.bytes();
  } else {
    ++summary_.returned;
  }
  ahead_ += storage.bytes();
  fetching_.push_back(slot);
}

/// It is no longer ahead.
void Offloads::forget_fetch(Slot slot) {
  if (std::erase(fetching_, slot) > 0) ahead_ -= at(slot).storage->bytes();
}

c10::Storage Offloads::fetch(Slot slot) {
  Sent& sent = at(slot);
  if (sent.lost) return {};
  note_asked(slot);
  try {
    begin_fetch(slot);
    look_ahead();  // before the wait: transfers go on behind it
    forget_fetch(slot);
    const Waiting waiting(summary_.backward_wait_ms);
    return sent.storage->end_fetch();
  } catch (const StoreError& error) {
    sent.storage->cancel_fetch();
    if (!recomputes()) throw;
    warn_once(error.file(),
              "reprise: a store did not bring a saved tensor back; it is recomputed. " +
                  std::string(error.what()));
    sent.lost = std::current_exception();
    sent.storage.reset();
    ++summary_.recomputed;
    return {};
  }
}

void Offloads::note_asked(Slot slot) {
  if (std::exchange(at(slot).asked, true)) return;
  asked_.push_back(slot);
  if (place_in_it_.empty()) return;
  next_ = std::max(next_, place_in_it_[static_cast<std::size_t>(slot)] + 1);
}

void Offloads::look_ahead() {
  go_on();
  const int64_t most = destination_.options.fetch_ahead().value_or(
      std::min(kMostAhead, summary_.moved_bytes / kPartAhead));
  for (; next_ < order_.size(); ++next_) {
    Sent& sent = at(order_[next_]);
    if (sent.asked || !sent.storage || sent.storage->is_fetching()) continue;
    const int64_t ahead = ahead_ + sent.storage->bytes();
    if (ahead_ > 0 && ahead > most) break;
    fetch_ahead(order_[next_]);
  }
  for (const Slot slot : fetching_) {
    try {
      at(slot).storage->go_on();   // to the device, what has come as far as the host
    } catch (const StoreError&) {  // the same
    }
  }
}

void Offloads::fetch_ahead(Slot slot) {
  if (!at(slot).storage) return;
  try {
    begin_fetch(slot);
  } catch (const std::exception&) {  // no memory now, or no store any more
  }
}

void Offloads::check(Slot slot, const c10::Storage& contents) {
  const Sent& sent = at(slot);
  if (sent.lost && content_hash(bytes_of(contents)) != sent.hash) std::rethrow_exception(sent.lost);
}

void Offloads::begin_pass() {
  end_pass();
  if (!order_of_steps_) return;
  order_ = order_of_steps_->of(sent_.size());
  place_in_it_.assign(sent_.size(), 0);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    place_in_it_[static_cast<std::size_t>(order_[i])] = i;
  }
}

// What was fetched for nobody (a partial gradient) must not outlive the pass.
void Offloads::end_pass() {
  if (order_of_steps_ && !asked_.empty() && asked_.size() == sent_.size())
    order_of_steps_->learn(asked_);
  asked_.clear();
  for (const Slot slot : fetching_) at(slot).storage->cancel_fetch();
  fetching_.clear();
  ahead_ = 0;
  for (Sent& sent : sent_) sent.asked = false;
  next_ = 0;
  order_.clear();
  place_in_it_.clear();
}

void Offloads::release(Slot slot) {
  Sent& sent = at(slot);
  if (!sent.storage) return;
  forget_fetch(slot);
  if (!sent.storage->release()) ++summary_.failed;
  sent.storage.reset();
}

OffloadSummary Offloads::summary() const {
  OffloadSummary summary = summary_;
  const StoreStats stats = destination_.store.stats();
  summary.send_bandwidth = stats.send_bandwidth();
  summary.fetch_bandwidth = stats.fetch_bandwidth();
  return summary;
}

}  // namespace reprise::detail
