// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}
namespace torch::optim {
class Optimizer;
}

// What the live bytes of a device are, at every moment: a ledger records each block of memory that
// is made and freed, and says with hindsight what it was for. A model and its optimizer come in; a
// timeline comes out, whose categories add up to Meter::live() at every event.

namespace reprise {

/// What a block of memory is for. One that is several of these is the first of them: a batch that
/// the first layer saves is an input, since it would be there without that, too.
enum class Category : uint8_t {
  parameters,
  gradients,        ///< what stands in the .grad of a parameter or another leaf
  optimizer_state,  ///< moments, momentum buffers
  buffers,          ///< of modules, such as running statistics
  inputs,           ///< data: named as such, or there before the recording and read by an operator
  saved,            ///< activations kept: made in a forward pass, alive when it ended
  replayed,         ///< activations that a replay made, for a backward pass that used them later
  offloaded,        ///< activations fetched back from a store; none while there are no stores
  temporaries,      ///< what is freed within the pass that made it, gradients of activations too
  other,            ///< there before the recording, and nothing of the above
};
inline constexpr std::size_t kCategories = 10;

/// All of them, in the order above.
REPRISE_API const std::array<Category, kCategories>& all_categories();

/// For people: "optimizer state", "saved activations".
REPRISE_API const char* name_of(Category category);

/// Bytes of each category.
struct CategoryBytes {
  std::array<int64_t, kCategories> bytes{};

  int64_t& operator[](Category category) { return bytes[static_cast<std::size_t>(category)]; }
  int64_t operator[](Category category) const { return bytes[static_cast<std::size_t>(category)]; }
  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t each : bytes) sum += each;
    return sum;
  }
  bool operator==(const CategoryBytes&) const = default;
};

/// A block of memory: one storage, from its allocation to its end.
struct MemoryBlock {
  int64_t bytes = 0;
  Category category = Category::other;
  int64_t made = -1;   ///< number of the event that made it; -1: it was there before
  int64_t freed = -1;  ///< number of the event that freed it; -1: it lived on
  std::string op;      ///< operator that made it, "aten::addmm"; empty where none ran
  std::string module;  ///< path of the module that it was made in, or that it is a parameter of
  std::string phase;   ///< name of the last mark before it was made
};

/// Something that changed the live bytes: a block was made, or freed.
struct MemoryEvent {
  int64_t block = 0;  ///< index in Timeline::blocks
  bool made = true;   ///< false: freed
  double ms = 0;      ///< since the recording began
};

/// A moment with a name. The first of a timeline is "start" and the last is "stop".
struct TimelineMark {
  std::string name;
  int64_t event = 0;  ///< number of the first event after it
  double ms = 0;
  std::optional<int64_t> resident_bytes;  ///< of the process then, see resident_bytes()
};

/// A recording: blocks, and the events that made and freed them, in order. Plain data.
struct REPRISE_API Timeline {
  std::string device;
  std::vector<MemoryBlock> blocks;
  std::vector<MemoryEvent> events;
  std::vector<TimelineMark> marks;

  /// Live bytes after event `event`; -1: when the recording began.
  CategoryBytes at(int64_t event) const;

  /// Number of the event after which the live bytes were largest (the first such); -1: they never
  /// exceeded those of the beginning.
  int64_t peak_event() const;
  CategoryBytes peak() const { return at(peak_event()); }

  /// Live bytes after every event, the beginning first: at(-1), at(0), ... Takes one pass.
  std::vector<CategoryBytes> all() const;

  /// Indices of the blocks that are alive after event `event`, largest first.
  std::vector<int64_t> alive(int64_t event) const;
};

/// What a ledger is told of the program. Setters return the object, so that they chain.
class REPRISE_API LedgerOptions {
 public:
  LedgerOptions();

  /// A model; may be called for several. Paths of its modules begin with `name`, where it is not
  /// empty. Its parameters and buffers are found now; those added later are not known.
  LedgerOptions& module(const torch::nn::Module& module, const std::string& name = "");
  LedgerOptions& module(const torch::jit::Module& module, const std::string& name = "");

  /// Its state is looked for until the recording ends. REQUIRES: it lives as long. State of a class
  /// that is not LibTorch's own is recognised when it is made after mark("optimizer") and stays.
  LedgerOptions& optimizer(const torch::optim::Optimizer& optimizer);

  /// Data, such as a batch or a whole dataset. Keeps the tensor alive.
  LedgerOptions& input(const at::Tensor& tensor);

  /// Default: the CPU.
  LedgerOptions& device(c10::Device device);

  struct Parts;
  const Parts& parts() const { return *parts_; }

 private:
  Parts& own();
  std::shared_ptr<Parts> parts_;  // shared by copies until one is changed
};

/// Records from its construction to stop(). Blocks are counted on all threads; the operators and
/// modules that made them are known for the thread that made the ledger and for the backward passes
/// that it starts. One ledger records at a time, since a block has one record. It watches the
/// allocator and LibTorch's observers, and changes nothing that a step does: not a bit, nor which
/// tensors checkpoints and scopes keep. It keeps some 100 bytes for each block and event, in memory
/// that LibTorch's allocators do not count.
///
///     Ledger ledger(LedgerOptions().module(*model).optimizer(adam));
///     ledger.mark("forward");   auto loss = f(model->forward(x));
///     ledger.mark("backward");  loss.backward();
///     ledger.mark("optimizer"); adam.step();
///     Timeline timeline = ledger.stop();
///
/// Marks are names for people, but for two: what is made after mark("data") and stays is an input,
/// and see LedgerOptions::optimizer().
class REPRISE_API Ledger {
 public:
  /// Throws UsageError when another ledger records, and where Meter would: for a device that cannot
  /// be measured. The CPU only, today: an accelerator's allocator tells of its blocks only on some
  /// threads.
  explicit Ledger(const LedgerOptions& options = {});

  /// Ends the recording, if stop() did not. REQUIRES: the thread that made it.
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void mark(const std::string& name);

  /// Live bytes at this moment, by what is known so far: in a forward pass all that it made and has
  /// not freed counts as saved. The sum is Meter::live(), unless other threads allocate meanwhile.
  CategoryBytes now() const;

  /// The number of events so far.
  int64_t events() const;

  /// Ends the recording. Throws UsageError the second time, and on another thread.
  Timeline stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
