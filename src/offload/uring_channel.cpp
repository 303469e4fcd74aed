// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <liburing.h>
#include <vector>

#include "offload/disk_channel.h"

namespace reprise::detail {
namespace {

constexpr unsigned kDepth = 32;  // more than an engine has under way

class UringChannel : public DiskChannel {
 public:
  UringChannel(std::shared_ptr<DiskFile> file, io_uring ring)
      : DiskChannel(std::move(file)), ring_(ring) {}
  ~UringChannel() override { ::io_uring_queue_exit(&ring_); }

  void submit(Transfer& transfer) override {
    under_way_.push_back(&transfer);
    if (broken_ != 0) return;
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) std::abort();  // never: the ring is larger than what is under way
    const auto bytes = static_cast<unsigned>(transfer.bytes);
    const auto offset = static_cast<uint64_t>(transfer.offset);
    if (transfer.write) {
      ::io_uring_prep_write(entry, file_->fd(), transfer.data, bytes, offset);
    } else {
      ::io_uring_prep_read(entry, file_->fd(), transfer.data, bytes, offset);
    }
    ::io_uring_sqe_set_data(entry, &transfer);
    ::io_uring_submit(&ring_);  // what the kernel does not take now, reap() offers again
  }

  Transfer* reap() override {
    io_uring_cqe* entry = nullptr;
    while (::io_uring_peek_cqe(&ring_, &entry) != 0) {
      const unsigned offered = ::io_uring_sq_ready(&ring_);
      if (offered < under_way_.size() && broken_ != 0) {
        ::io_uring_wait_cqe(&ring_, &entry);
      } else if (broken_ != 0) {
        return fail();
      } else {
        const int taken = ::io_uring_submit_and_wait(&ring_, 1);
        if (taken < 0 && taken != -EINTR && taken != -EAGAIN && taken != -EBUSY) broken_ = taken;
      }
    }
    auto* const transfer = static_cast<Transfer*>(::io_uring_cqe_get_data(entry));
    transfer->result = entry->res;
    ::io_uring_cqe_seen(&ring_, entry);
    under_way_.erase(std::find(under_way_.begin(), under_way_.end(), transfer));
    return transfer;
  }

 private:
  std::string way() const override { return "io_uring"; }

  /// The ring takes nothing any more, and the kernel has given back all that it took.
  Transfer* fail() {
    Transfer* const last = under_way_.back();
    under_way_.pop_back();
    last->result = broken_;
    return last;
  }

  io_uring ring_;
  std::vector<Transfer*> under_way_;
  int broken_ = 0;  // -errno
};

}  // namespace

std::unique_ptr<Channel> uring_channel(std::shared_ptr<DiskFile> file) {
  io_uring ring;
  if (::io_uring_queue_init(kDepth, &ring, 0) != 0) return nullptr;
  io_uring_probe* const probe = ::io_uring_get_probe_ring(&ring);
  const bool usable = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                      ::io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  if (probe != nullptr) ::io_uring_free_probe(probe);
  if (!usable) {
    ::io_uring_queue_exit(&ring);
    return nullptr;
  }
  return std::make_unique<UringChannel>(std::move(file), ring);
}

}  // namespace reprise::detail
