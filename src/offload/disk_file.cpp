// SPDX-License-Identifier: BSD-3-Clause
#include "offload/disk_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <system_error>
#include <unistd.h>

#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

namespace reprise::detail {
namespace {

/// -errno where it fails.
int open_without_name(const std::string& folder, bool born_nameless) {
  if (born_nameless) {
    const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd >= 0) return fd;
  }
  // Kernels and file systems without O_TMPFILE answer in several ways; the second try tells a
  // missing folder from those.
  std::string name = folder + "/.reprise-store-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) return -errno;
  ::unlink(name.c_str());
  return named;
}

bool round_trip(int fd, std::size_t bytes) {
  const auto block = [&] {
    return std::unique_ptr<void, decltype(&std::free)>(std::aligned_alloc(bytes, bytes), std::free);
  };
  const auto out = block(), back = block();
  if (!out || !back) return false;
  std::memset(out.get(), 0x5a, bytes);
  std::memset(back.get(), 0, bytes);
  const auto all = static_cast<ssize_t>(bytes);
  return ::pwrite(fd, out.get(), bytes, 0) == all && ::pread(fd, back.get(), bytes, 0) == all &&
         std::memcmp(out.get(), back.get(), bytes) == 0;
}

}  // namespace

DiskFile::DiskFile(const std::string& folder, int64_t keep_free, bool born_nameless)
    : place_("an unlinked file in '" + folder + "'"), keep_free_(keep_free) {
  fd_ = open_without_name(folder, born_nameless);
  if (fd_ < 0) {
    throw StoreError({"cannot make a store", place_, 0, "a folder that one can write to",
                      std::generic_category().message(-fd_), "make the folder, or name another"});
  }
}

DiskFile::~DiskFile() { ::close(fd_); }

bool DiskFile::try_direct() {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) return false;
#ifdef STATX_DIOALIGN
  struct statx facts = {};
  if (::statx(fd_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 &&
      (facts.stx_mask & STATX_DIOALIGN) != 0 && facts.stx_dio_mem_align > 0) {
    memory_alignment_ = facts.stx_dio_mem_align;
    offset_alignment_ = std::max<int64_t>(offset_alignment_, facts.stx_dio_offset_align);
  }
#endif
  direct_ =
      round_trip(fd_, static_cast<std::size_t>(std::max(offset_alignment_, memory_alignment_)));
  if (!direct_) ::fcntl(fd_, F_SETFL, flags);
  return direct_;
}

std::optional<StoreFault> DiskFile::grow(int64_t bytes) {
  const std::string doing = "cannot grow to " + std::to_string(bytes) + " bytes";
  // Beyond this limit the system would not answer, but send a signal that ends the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < static_cast<rlim_t>(bytes)) {
    StoreFault refused = fault(doing, length_, EFBIG);
    refused.hint = "raise the limit on file sizes (ulimit -f), or offload less";
    return refused;
  }
  const int64_t more = bytes - length_, there = available();
  if (more > there) {
    StoreFault full = fault(doing, length_, ENOSPC);
    full.expected = std::to_string(more) + " bytes free beside " + std::to_string(keep_free_);
    full.found = std::to_string(there);
    return full;
  }
  int failed = 0;
  do {
    failed = ::fallocate(fd_, 0, length_, more) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed == EOPNOTSUPP || failed == ENOSYS) failed = ::ftruncate(fd_, bytes) == 0 ? 0 : errno;
  if (failed != 0) return fault(doing, length_, failed);
  length_ = bytes;
  return {};
}

int64_t DiskFile::available() const {
  struct statvfs facts {};
  if (::fstatvfs(fd_, &facts) != 0) return 0;
  const auto free = static_cast<int64_t>(facts.f_bavail) * static_cast<int64_t>(facts.f_frsize);
  return std::max<int64_t>(0, free - keep_free_);
}

bool DiskFile::in_memory() const {
  struct statfs facts {};
  return ::fstatfs(fd_, &facts) == 0 &&
         (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC);
}

StoreFault DiskFile::fault(const std::string& doing, int64_t offset, int error) const {
  return {doing,
          place_,
          offset,
          "the file to grow",
          std::generic_category().message(error),
          "make room there, name another folder, or offload less"};
}

}  // namespace reprise::detail
