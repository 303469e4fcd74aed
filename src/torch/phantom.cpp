// SPDX-License-Identifier: BSD-3-Clause
#include "torch/phantom.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include <reprise/error.h>

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <sys/mman.h>

namespace reprise::detail {
namespace {

struct Reserved {
  void* begin;
  std::size_t bytes;
  PhantomCounter* counter;  // null: nobody counts it
  uint32_t token;
};

// A lock: next to reserving address space it is nothing.
struct Count {
  std::mutex mutex;
  PhantomBytes bytes;

  void add(int64_t change) {
    const std::lock_guard lock(mutex);
    bytes.live += change;
    bytes.peak = std::max(bytes.peak, bytes.live);
  }
};

Count& count() {
  static auto& count = *new Count;
  return count;
}

std::atomic<PhantomCounter*> counter{nullptr};

void release(void* context) {
  auto* reserved = static_cast<Reserved*>(context);
  ::munmap(reserved->begin, reserved->bytes);
  count().add(-static_cast<int64_t>(reserved->bytes));
  if (reserved->counter != nullptr) {
    reserved->counter->freed(static_cast<int64_t>(reserved->bytes), reserved->token);
  }
  delete reserved;
}

c10::DataPtr reserve(std::size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release, cpu};
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) {
    throw Error("cannot reserve " + std::to_string(bytes) +
                    " bytes of address space for a tensor without memory: " + std::strerror(errno),
                "raise the limit on address space (ulimit -v), or use smaller sizes");
  }
  count().add(static_cast<int64_t>(bytes));
  PhantomCounter* const counts = counter.load(std::memory_order_relaxed);
  const uint32_t token = counts != nullptr ? counts->made(static_cast<int64_t>(bytes)) : 0;
  return {begin, new Reserved{begin, bytes, counts, token}, &release, cpu};
}

}  // namespace

at::Tensor make_phantom(const at::Tensor& tensor) {
  const std::size_t bytes = tensor.storage().nbytes();
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, reserve(bytes), /*allocator=*/nullptr,
      /*resizable=*/false));
  at::Tensor phantom = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  phantom.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  phantom.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return phantom;
}

PhantomBytes phantom_bytes() {
  const std::lock_guard lock(count().mutex);
  return count().bytes;
}

void reset_phantom_peak() {
  const std::lock_guard lock(count().mutex);
  count().bytes.peak = count().bytes.live;
}

void set_phantom_counter(PhantomCounter* counts) { counter = counts; }

bool is_phantom(const at::Tensor& tensor) {
  return tensor.has_storage() &&
         tensor.unsafeGetTensorImpl()->unsafe_storage().data_ptr().get_deleter() == &release;
}

}  // namespace reprise::detail
