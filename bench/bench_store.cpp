// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <reprise/store.h>

#include <benchmark/benchmark.h>

// Sustained sends and fetches of a DiskStore, against raw reads and writes of the same bytes on the
// same folder, turn and turn about in one run. The folder is REPRISE_BENCH_FOLDER, or that for
// temporary files. Raw is what fio's psync engine does: threads, each of which writes or reads
// 1 MiB at a time, past the page cache if the store goes past it.
//   raw_MBps, store_MBps   medians; the time of a store includes its checksums
//   of_raw                 median of the pairs' ratios, in percent: at least 85 is the aim
//   ms_per_MiB             of processor time, of the store's threads
// The label is the way that the store goes. HostStore and CompressedStore stand beside it, alone.

namespace {

using namespace reprise;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kBlock = 16 * kMiB;
constexpr int64_t kTotal = 256 * kMiB;
constexpr int kRawThreads = 8;
constexpr int kTargets = 4;

using Memory = std::unique_ptr<void, decltype(&std::free)>;

Memory aligned(int64_t bytes) {
  return {std::aligned_alloc(4096, static_cast<std::size_t>(bytes)), &std::free};
}

/// Large blocks of LibTorch lie at a multiple of a page, and 64 bytes.
std::shared_ptr<void> like_libtorch() {
  const std::shared_ptr<void> whole(std::aligned_alloc(4096, kBlock + 4096), std::free);
  return {whole, static_cast<std::byte*>(whole.get()) + 64};
}

/// Half of them zero, as after a ReLU.
std::shared_ptr<const void> activations() {
  std::shared_ptr<void> memory = like_libtorch();
  auto* const values = static_cast<float*>(memory.get());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < kBlock / 4; ++i) values[i] = std::max(0.0F, normal(random));
  return memory;
}

std::string folder() {
  const char* const named = std::getenv("REPRISE_BENCH_FOLDER");
  return named != nullptr ? named : std::filesystem::temp_directory_path().string();
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A file without a name, written once.
class RawFile {
 public:
  explicit RawFile(bool direct)
      : fd_(::open(folder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | (direct ? O_DIRECT : 0),
                   0600)) {
    if (fd_ < 0) throw std::runtime_error("no file in " + folder());
    for (int i = 0; i < kRawThreads; ++i) {
      buffers_.push_back(aligned(kMiB));
      std::fill_n(static_cast<std::byte*>(buffers_.back().get()), kMiB, std::byte{0x5a});
    }
    if (::posix_fallocate(fd_, 0, kTotal) != 0) throw std::runtime_error("no room");
    move(true);
  }
  ~RawFile() { ::close(fd_); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  void move(bool write) const {
    std::atomic<int64_t> next = 0;
    std::atomic<bool> failed = false;
    std::vector<std::thread> threads;
    for (const Memory& buffer : buffers_) {
      threads.emplace_back([&, memory = buffer.get()] {
        for (int64_t at = next.fetch_add(kMiB); at < kTotal; at = next.fetch_add(kMiB)) {
          const ssize_t moved =
              write ? ::pwrite(fd_, memory, kMiB, at) : ::pread(fd_, memory, kMiB, at);
          if (moved != kMiB) failed = true;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (failed) throw std::runtime_error("raw transfers fail");
  }

 private:
  const int fd_;
  std::vector<Memory> buffers_;
};

/// A store with `kTotal` bytes in it, and room for as many again.
class Filled {
 public:
  explicit Filled(Store store) : store_(std::move(store)), data_(activations()) {
    send();
    send();
    for (int i = 0; i < kTargets; ++i) targets_.push_back(like_libtorch());
    filled_ = store_.stats();
  }

  /// New blocks in place of the old ones, which make room as a training step does.
  void send() {
    blocks_.clear();
    for (int64_t at = 0; at < kTotal; at += kBlock) {
      blocks_.push_back(store_.send({data_, kBlock, 4, true}));
    }
    for (Block& block : blocks_) block.wait();
  }

  void fetch() {
    std::vector<Fetch> fetches(kTargets);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      Fetch& fetch = fetches[i % kTargets];
      if (fetch) fetch.wait();
      fetch = blocks_[i].fetch(targets_[i % kTargets]);
    }
    for (Fetch& fetch : fetches) fetch.wait();
  }

  const Store& store() const { return store_; }

  /// Of the transfers since it was filled.
  double processor_ms_per_mib() const {
    const StoreStats now = store_.stats();
    return (now.processor_ms - filled_.processor_ms) * kMiB /
           static_cast<double>(now.bytes_moved() - filled_.bytes_moved());
  }

 private:
  const Store store_;
  StoreStats filled_;
  const std::shared_ptr<const void> data_;
  std::vector<Block> blocks_;
  std::vector<std::shared_ptr<void>> targets_;
};

void report(benchmark::State& state, const Filled& filled, const std::vector<double>& store) {
  state.counters["store_MBps"] = kTotal / median(store) / 1e6;
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kTotal);
  state.counters["ms_per_MiB"] = filled.processor_ms_per_mib();
  state.SetLabel(filled.store().stats().path);
}

void disk(benchmark::State& state, bool sends, bool direct, bool io_uring) {
  DiskOptions options;
  options.direct = direct;
  options.io_uring = io_uring;
  options.bytes_in_flight = kTotal;  // nothing waits for room: the transfers are what is measured
  Filled filled{DiskStore(folder(), options)};
  const bool is_direct = filled.store().stats().path.find("direct") != std::string::npos;
  const RawFile raw(is_direct);
  std::vector<double> raws, stores, shares;
  for (auto _ : state) {
    const double raw_time = seconds([&] { raw.move(sends); });
    const double store_time = seconds([&] { sends ? filled.send() : filled.fetch(); });
    raws.push_back(raw_time);
    stores.push_back(store_time);
    shares.push_back(100 * raw_time / store_time);
    state.SetIterationTime(store_time);
  }
  report(state, filled, stores);
  state.counters["raw_MBps"] = kTotal / median(raws) / 1e6;
  state.counters["of_raw"] = median(shares);
}

void memory(benchmark::State& state, bool sends, bool compressed) {
  HostOptions options;
  options.allocate = [](int64_t bytes) {
    return std::shared_ptr<void>(std::aligned_alloc(4096, static_cast<std::size_t>(bytes)),
                                 std::free);
  };
  const HostStore host(kTotal, options);
  Filled filled{compressed ? Store(CompressedStore(host)) : Store(host)};
  std::vector<double> stores;
  for (auto _ : state) {
    const double time = seconds([&] { sends ? filled.send() : filled.fetch(); });
    stores.push_back(time);
    state.SetIterationTime(time);
  }
  report(state, filled, stores);
  const StoreStats stats = filled.store().stats();
  state.counters["stored"] =
      100 * static_cast<double>(stats.bytes_stored) / static_cast<double>(stats.bytes_held);
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Iterations(9)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const bool sends : {true, false}) {
    const std::string verb = sends ? "send" : "fetch";
    add(verb + "/disk", [=](auto& state) { disk(state, sends, true, true); });
    add(verb + "/disk_threads", [=](auto& state) { disk(state, sends, true, false); });
    add(verb + "/disk_page_cache", [=](auto& state) { disk(state, sends, false, true); });
    add(verb + "/host", [=](auto& state) { memory(state, sends, false); });
    add(verb + "/compressed_host", [=](auto& state) { memory(state, sends, true); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
