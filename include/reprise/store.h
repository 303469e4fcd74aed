// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include <reprise/error.h>
#include <reprise/export.h>

// Stores: where offloaded bytes go. A store takes a block of bytes and gives a handle; the handle
// brings the bytes back, into memory of the caller. Both go on behind the caller's back until
// somebody waits. What comes back is what was sent, bit by bit, or a StoreError.

namespace reprise {

/// What went wrong in a store. Plain data.
struct StoreFault {
  std::string doing;  ///< "cannot write 4096 bytes"
  std::string file;   ///< what the store calls the place: "an unlinked file in '/scratch'"
  int64_t offset = 0;
  std::string expected, found;
  std::string hint;
};

/// A store could not keep, or not bring back, a block.
class REPRISE_API StoreError : public Error {
 public:
  explicit StoreError(StoreFault fault);

  const StoreFault& fault() const { return fault_; }
  const std::string& file() const { return fault_.file; }
  int64_t offset() const { return fault_.offset; }
  const std::string& expected() const { return fault_.expected; }
  const std::string& found() const { return fault_.found; }

 private:
  StoreFault fault_;
};

/// Bytes to send.
struct Payload {
  /// The store lets go of it when the bytes have arrived, on a thread of its own. REQUIRES: nobody
  /// writes to the memory until then.
  std::shared_ptr<const void> data;
  int64_t bytes = 0;
  int element_size = 1;  ///< bytes of one number, 1 to 16: compression works by it
  bool float32 = false;  ///< float32 numbers: a lossy store rounds these, and nothing else
  bool copied = false;   ///< of an accelerator's memory: a store in host memory saves that
};

/// What a store has done since it was made.
struct REPRISE_API StoreStats {
  std::string path;                         ///< how bytes get there: "io_uring, direct, into ..."
  int64_t blocks_held = 0, bytes_held = 0;  ///< handles that live, and the bytes sent for them
  int64_t bytes_stored = 0;                 ///< the room these take: padded, or compressed
  int64_t blocks_sent = 0, bytes_sent = 0;  ///< arrived
  int64_t blocks_fetched = 0, bytes_fetched = 0;
  int64_t blocks_returned = 0;  ///< fetched before they had arrived: copied from the payload
  int64_t blocks_compressed = 0;
  int64_t faults = 0;        ///< sends and fetches that failed
  double send_wait_ms = 0;   ///< callers waited: in send() for others to arrive, in Block::wait()
  double fetch_wait_ms = 0;  ///< callers waited in Fetch::wait()
  double send_ms = 0;        ///< at least one send was under way
  double fetch_ms = 0;       ///< at least one fetch was under way
  double processor_ms = 0;   ///< processor time of the store's threads, in the system too

  int64_t bytes_moved() const { return bytes_sent + bytes_fetched; }
  double send_bandwidth() const;  ///< bytes per second while sends were under way; 0 before any
  double fetch_bandwidth() const;
};

// --- the seam: derive from these for a store of your own -----------------------------------------

/// A fetch under way. Its end cancels it, or lets it finish unseen.
class REPRISE_API StoredFetch {
 public:
  virtual ~StoredFetch();
  virtual bool done() const = 0;  ///< arrived, or failed
  virtual void wait() = 0;        ///< throws StoreError
};

/// A block in a store. Its end frees the block's place, also while transfers are under way.
class REPRISE_API StoredBlock {
 public:
  virtual ~StoredBlock();
  virtual bool done() const = 0;  ///< arrived, or failed
  virtual void wait() = 0;        ///< throws StoreError
  virtual std::shared_ptr<const void> payload() const = 0;
  virtual std::unique_ptr<StoredFetch> fetch(std::shared_ptr<void> target) = 0;
};

/// Thread-safe, and so are its blocks. Blocks may outlive it. A block that failed still gives its
/// bytes back if it holds the payload.
class REPRISE_API StoreBackend {
 public:
  virtual ~StoreBackend();
  virtual std::unique_ptr<StoredBlock> send(Payload payload) = 0;
  virtual StoreStats stats() const = 0;
  virtual int64_t room() const = 0;                  ///< see Store
  virtual bool lossy() const { return false; }       ///< see Store
  virtual std::string advice() const { return {}; }  ///< warned of once, if it is not `copied`
};

// --- handles -------------------------------------------------------------------------------------

namespace detail {

/// The process that made a handle. A store's threads do not come along into a forked one.
class REPRISE_API OwnProcess {
 public:
  OwnProcess();
  bool is_this() const;
  void require(const char* doing) const;  ///< throws StoreError in another one

 private:
  int id_;
};

}  // namespace detail

/// A fetch under way; move-only. Dropped before it is done, it is cancelled or finishes unseen. An
/// empty one's functions throw UsageError.
class REPRISE_API Fetch {
 public:
  Fetch() = default;
  explicit Fetch(std::unique_ptr<StoredFetch> stored) : stored_(std::move(stored)) {}

  explicit operator bool() const { return stored_ != nullptr; }
  bool done() const { return stored().done(); }

  /// Until the target holds the bytes. Throws StoreError; the target holds no promise then.
  void wait();

 private:
  StoredFetch& stored() const;

  std::unique_ptr<StoredFetch> stored_;
  detail::OwnProcess process_;
};

/// A block of bytes in a store; move-only. Dropping it frees the block's place, also while a
/// transfer is under way: what has not begun is cancelled, the rest finishes first. An empty one's
/// functions throw UsageError.
class REPRISE_API Block {
 public:
  Block() = default;
  Block(std::unique_ptr<StoredBlock> stored, int64_t bytes)
      : stored_(std::move(stored)), bytes_(bytes) {}

  explicit operator bool() const { return stored_ != nullptr; }
  int64_t bytes() const { return bytes_; }

  /// Whether the bytes have arrived, or failed to.
  bool done() const { return stored().done(); }

  /// Until the bytes have arrived. Throws StoreError if they did not; then the block keeps the
  /// payload in memory, and can be fetched all the same: nothing is lost, but nothing is saved.
  void wait();

  /// The memory that was sent, as long as the store holds it: before the bytes have arrived, and
  /// after a failure. Cheaper than a fetch. Else null; from a lossy store always null.
  std::shared_ptr<const void> payload() const { return stored().payload(); }

  /// Begins to bring the bytes back; also before they have arrived, and as often as one likes.
  /// Throws UsageError for a null target, unless the block is empty.
  /// REQUIRES: target has room for bytes(), and nobody else touches it until the fetch is done.
  Fetch fetch(std::shared_ptr<void> target) const;

 private:
  StoredBlock& stored() const;

  std::unique_ptr<StoredBlock> stored_;
  int64_t bytes_ = 0;
  detail::OwnProcess process_;
};

/// A store. Copies are handles of the same one, which lives until the last of them and of its
/// blocks is gone. Thread-safe. In a process that is forked off, a store that was made before has
/// no room, and what would have to move is a StoreError.
class REPRISE_API Store {
 public:
  /// Throws UsageError without a backend.
  explicit Store(std::shared_ptr<StoreBackend> backend);

  /// Begins to send. Waits first while too many bytes are in flight; a payload larger than that
  /// limit travels alone. A store without room gives a block whose wait() throws. Throws UsageError
  /// for a payload without data, of negative size, or with another element size.
  Block send(Payload payload) const;

  StoreStats stats() const { return backend_->stats(); }

  /// Bytes that may still be sent before a limit of the store is reached, as known now: others may
  /// send as well, and a disk may fill up.
  int64_t room() const { return process_.is_this() ? backend_->room() : 0; }

  /// Whether blocks may come back rounded.
  bool lossy() const { return backend_->lossy(); }

  const std::shared_ptr<StoreBackend>& backend() const { return backend_; }

 private:
  std::shared_ptr<StoreBackend> backend_;
  detail::OwnProcess process_;
};

// --- the stores ----------------------------------------------------------------------------------

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct DiskOptions {
  /// Sent and not yet arrived: it still takes memory. The default is twice what a disk has under
  /// way at once.
  int64_t bytes_in_flight = int64_t{16} << 20;
  int64_t bytes_held = kNoLimit;          ///< most room taken, in blocks of 4096 bytes
  int64_t keep_free = int64_t{64} << 20;  ///< of the file system, left for others
  bool direct = true;                     ///< past the page cache, where the file system can
  bool io_uring = true;                   ///< where the kernel allows it; else some threads
};

/// Blocks in one file of a folder. The file has no name, so nothing survives the process, however
/// it ends; any number of stores and processes may share a folder, and the folder may go while they
/// run. A checksum of each block is kept in memory, and checked on return.
class REPRISE_API DiskStore : public Store {
 public:
  /// Throws UsageError for limits that mean nothing, StoreError if no file can be made in the
  /// folder or the file system has not the room that `bytes_held` asks for.
  explicit DiskStore(const std::string& folder, const DiskOptions& options = {});
};

struct HostOptions {
  int64_t bytes_in_flight = int64_t{16} << 20;

  /// Makes the pool: at least so many bytes, at a multiple of 64. Empty: ordinary memory. Here
  /// pinned memory of an accelerator comes in. Throwing, it ends the constructor.
  std::function<std::shared_ptr<void>(int64_t bytes)> allocate;
};

/// Blocks in a pool of host memory, made in one piece when the store is. For a model that trains on
/// the CPU this saves no memory at all, and the first send warns of it, unless `allocate` is given
/// or a CompressedStore is around it.
class REPRISE_API HostStore : public Store {
 public:
  explicit HostStore(int64_t bytes, const HostOptions& options = {});
};

struct CompressedOptions {
  int64_t bytes_in_flight = int64_t{16} << 20;  ///< sent and not yet compressed
  double min_gain = 0.1;  ///< a block that would shrink by less stays as it is
  int threads = 1;        ///< that compress and expand

  /// Leaves blocks as they are while compressing is slower than the store below takes bytes.
  bool only_if_faster = false;

  /// Rounds float32 numbers to bfloat16 (8 bits of precision, half the bytes): gradients change.
  bool lossy_bfloat16 = false;
};

/// Blocks compressed on their way to another store: bytes shuffled by element size, then LZ4 or
/// Zstandard, whichever a sample of the block speaks for. Exact, unless lossy_bfloat16 is set.
class REPRISE_API CompressedStore : public Store {
 public:
  explicit CompressedStore(const Store& below, const CompressedOptions& options = {});
};

/// Bytes per second.
struct Bandwidth {
  double send = 0;
  double fetch = 0;
};

/// Sends `bytes` in blocks of 8 MiB and fetches them back, and takes the time: numbers that are
/// spread as activations are, not zeros. Takes as long as that takes, so callers keep the answer.
/// Throws StoreError.
REPRISE_API Bandwidth measure_bandwidth(const Store& store, int64_t bytes = int64_t{128} << 20);

}  // namespace reprise
