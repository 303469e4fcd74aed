// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reprise/ledger.h>

// Questions to a recorded timeline.

namespace reprise {
namespace {

/// The bytes of the beginning, from which the events lead on.
CategoryBytes beginning(const Timeline& timeline) {
  CategoryBytes bytes;
  for (const MemoryBlock& block : timeline.blocks) {
    if (block.made < 0) bytes[block.category] += block.bytes;
  }
  return bytes;
}

void apply(const Timeline& timeline, const MemoryEvent& event, CategoryBytes& bytes) {
  const MemoryBlock& block = timeline.blocks[static_cast<std::size_t>(event.block)];
  bytes[block.category] += event.made ? block.bytes : -block.bytes;
}

}  // namespace

const std::array<Category, kCategories>& all_categories() {
  static constexpr std::array<Category, kCategories> kAll = {
      Category::parameters,  Category::gradients, Category::optimizer_state, Category::buffers,
      Category::inputs,      Category::saved,     Category::replayed,        Category::offloaded,
      Category::temporaries, Category::other};
  return kAll;
}

const char* name_of(Category category) {
  static constexpr std::array<const char*, kCategories> kNames = {"parameters",
                                                                  "gradients",
                                                                  "optimizer state",
                                                                  "buffers",
                                                                  "inputs",
                                                                  "saved activations",
                                                                  "replayed activations",
                                                                  "offloaded activations",
                                                                  "temporaries",
                                                                  "other"};
  return kNames.at(static_cast<std::size_t>(category));
}

CategoryBytes Timeline::at(int64_t event) const {
  CategoryBytes bytes = beginning(*this);
  const auto count = std::min(event + 1, static_cast<int64_t>(events.size()));
  for (int64_t i = 0; i < count; ++i) apply(*this, events[static_cast<std::size_t>(i)], bytes);
  return bytes;
}

std::vector<CategoryBytes> Timeline::all() const {
  std::vector<CategoryBytes> result = {beginning(*this)};
  result.reserve(events.size() + 1);
  for (const MemoryEvent& event : events) {
    result.push_back(result.back());
    apply(*this, event, result.back());
  }
  return result;
}

int64_t Timeline::peak_event() const {
  int64_t live = 0, peak = 0, found = -1;  // above the beginning
  for (std::size_t i = 0; i < events.size(); ++i) {
    const int64_t bytes = blocks[static_cast<std::size_t>(events[i].block)].bytes;
    live += events[i].made ? bytes : -bytes;
    if (live > peak) {
      peak = live;
      found = static_cast<int64_t>(i);
    }
  }
  return found;
}

std::vector<int64_t> Timeline::alive(int64_t event) const {
  std::vector<int64_t> found;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const MemoryBlock& block = blocks[i];
    if (block.made <= event && (block.freed < 0 || block.freed > event)) {
      found.push_back(static_cast<int64_t>(i));
    }
  }
  std::stable_sort(found.begin(), found.end(), [this](int64_t a, int64_t b) {
    return blocks[static_cast<std::size_t>(a)].bytes > blocks[static_cast<std::size_t>(b)].bytes;
  });
  return found;
}

}  // namespace reprise
