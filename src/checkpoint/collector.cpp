// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/collector.h"

#include <utility>

#include <c10/core/GradMode.h>

#include "meter/content_hash.h"
#include "torch/graph.h"
#include "torch/operator_observer.h"

namespace reprise::detail {
namespace {

// The replayed graph keeps what it saves, too: the function may run a backward pass on it.
class Replayed final : public PackedTensor {
 public:
  explicit Replayed(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  at::Tensor unpack() override { return tensor_; }

 private:
  const at::Tensor tensor_;
};

}  // namespace

const char* ReplayDone::what() const noexcept {
  return "reprise: the replay of a checkpointed region has all it needs (not an error; code that "
         "catches it inside the region may let it pass)";
}

Collector::Collector(std::vector<std::shared_ptr<Slot>> wanted, int64_t pass, bool check_metadata,
                     bool stop)
    : wanted_(std::move(wanted)), pass_(pass), check_metadata_(check_metadata), stop_(stop) {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (wanted_[i]) needed_ = i + 1;
  }
}

at::Tensor Collector::stand_in(const at::Tensor& argument) {
  if (!argument.defined() || argument.is_leaf() || argument.layout() != at::kStrided) {
    return argument;
  }
  const c10::AutoGradMode with_grad(true);
  stand_ins_.emplace_back(argument.alias(), argument);
  return stand_ins_.back().first;
}

const at::Tensor& Collector::original(const at::Tensor& tensor) const {
  if (stand_ins_.empty() || tensor.is_leaf()) return tensor;
  // By its node: a gradient taken inside the region brings it back as another tensor.
  const void* node = node_of(tensor);
  for (const auto& [stand_in, argument] : stand_ins_) {
    if (node == node_of(stand_in)) return argument;
  }
  return tensor;
}

std::shared_ptr<PackedTensor> Collector::pack(const at::Tensor& tensor) {
  // A detached copy: the tensor itself may be an output of the node that saves it, and own it.
  auto kept = std::make_shared<Replayed>(tensor.detach());
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t index = count_++;
  if (index < wanted_.size() && wanted_[index]) {
    Slot& slot = *wanted_[index];
    const SavedMetadata metadata(original(tensor));
    if (check_metadata_ && metadata != slot.metadata) {
      if (mismatch_.empty()) {
        mismatch_ = "saved tensor " + std::to_string(index) + " was " + slot.metadata.str() +
                    " in the forward pass and is " + metadata.str() + " in the replay";
      }
    } else if (slot.hash && *slot.hash != content_hash(tensor)) {
      if (mismatch_.empty()) {
        mismatch_ = "saved tensor " + std::to_string(index) + ", " + metadata.str() +
                    ", has other contents in the replay than in the forward pass";
      }
    } else {
      slot.value = kept->unpack();
      slot.value_pass = pass_;
    }
  }
  // An operator saves its arguments before its kernel runs, and a few kernels (rrelu_with_noise)
  // fill one of them: then the replay goes on to the next saved tensor, or to the end.
  if (stop_ && count_ >= needed_ && std::this_thread::get_id() == thread_ &&
      (count_ > needed_ || !running_operator_fills_arguments())) {
    stopped_ = true;
    throw ReplayDone();
  }
  return kept;
}

}  // namespace reprise::detail
