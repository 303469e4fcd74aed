// SPDX-License-Identifier: BSD-3-Clause
#include "offload/memory_channel.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <utility>

namespace reprise::detail {
namespace {

class MemoryChannel : public Channel {
 public:
  MemoryChannel(std::shared_ptr<void> pool, int64_t bytes, std::string path, std::string advice)
      : pool_(std::move(pool)), bytes_(bytes), path_(std::move(path)), advice_(std::move(advice)) {}

  int64_t alignment() const override { return 1; }
  int64_t memory_alignment() const override { return 1; }

  std::optional<StoreFault> grow(int64_t bytes) override {
    if (bytes > bytes_) {
      return StoreFault{"cannot use " + std::to_string(bytes) + " bytes",
                        place(),
                        end_,
                        std::to_string(bytes),
                        std::to_string(bytes_),
                        "make the store larger, or offload less"};
    }
    end_ = bytes;
    return {};
  }

  int64_t growth() const override { return bytes_ - end_; }

  void submit(Transfer& transfer) override {
    std::byte* const place = static_cast<std::byte*>(pool_.get()) + transfer.offset;
    const auto bytes = static_cast<std::size_t>(transfer.bytes);
    if (transfer.write) {
      std::memcpy(place, transfer.data, bytes);
    } else {
      std::memcpy(transfer.data, place, bytes);
    }
    transfer.result = transfer.bytes;
    done_.push_back(&transfer);
  }

  Transfer* reap() override {
    Transfer* const first = done_.front();
    done_.pop_front();
    return first;
  }

  std::string path() const override { return path_; }
  std::string place() const override { return "a pool of " + path_; }
  std::string advice() const override { return advice_; }

 private:
  const std::shared_ptr<void> pool_;
  const int64_t bytes_;
  const std::string path_, advice_;
  std::atomic<int64_t> end_ = 0;  // growth() is asked on other threads
  std::deque<Transfer*> done_;
};

}  // namespace

std::unique_ptr<Channel> memory_channel(std::shared_ptr<void> pool, int64_t bytes, std::string path,
                                        std::string advice) {
  return std::make_unique<MemoryChannel>(std::move(pool), bytes, std::move(path),
                                         std::move(advice));
}

}  // namespace reprise::detail
