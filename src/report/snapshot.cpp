// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <tuple>

#include <reprise/snapshot.h>

#include "report/address_space.h"
#include "report/pickle.h"

// Timelines as PyTorch's memory snapshot.

namespace reprise {
namespace {

using detail::AddressSpace;
using detail::Pickle;

constexpr int64_t kBatch = 1000;  // elements of a list between two steps of its reader

// Writes one timeline: its trace first, then the segment that is left at its end.
class DeviceWriter {
 public:
  DeviceWriter(const Timeline& timeline, int64_t device, Pickle& pickle)
      : timeline_(timeline),
        device_(device),
        pickle_(pickle),
        space_((device + 1) << 40),  // apart from those of the others
        addresses_(timeline.blocks.size(), 0) {}

  void trace() {
    pickle_.begin_list();
    for (std::size_t i = 0; i < timeline_.blocks.size(); ++i) {
      if (timeline_.blocks[i].made < 0) made(i, 0);
    }
    for (const MemoryEvent& event : timeline_.events) {
      const auto block = static_cast<std::size_t>(event.block);
      if (event.made) {
        made(block, event.ms);
      } else {
        freed(block, event.ms);
      }
    }
    end_of_trace();
    pickle_.end_list();
  }

  void annotations() {
    for (const TimelineMark& mark : timeline_.marks) {
      pickle_.begin_dict();
      number("device", device_);
      word("stage", "START");
      word("name", mark.name);
      number("time_us", std::llround(mark.ms * 1000));
      pickle_.end_dict();
    }
  }

  void segment() {
    std::map<int64_t, std::size_t> alive;
    int64_t bytes = 0;
    for (std::size_t i = 0; i < timeline_.blocks.size(); ++i) {
      if (addresses_[i] == 0) continue;
      alive[addresses_[i]] = i;
      bytes += timeline_.blocks[i].bytes;
    }
    pickle_.begin_dict();
    number("device", device_);
    number("address", space_.base());
    number("total_size", space_.end() - space_.base());
    number("allocated_size", bytes);
    number("active_size", bytes);
    number("requested_size", bytes);
    number("stream", 0);
    word("segment_type", "large");
    pickle_.text("is_expandable");
    pickle_.boolean(false);
    no_frames();
    pickle_.text("blocks");
    pickle_.begin_list();
    int64_t at = space_.base();
    int64_t written = 0;
    for (const auto& [address, index] : alive) {
      gap(at, address);
      at = address + timeline_.blocks[index].bytes;
      end_block(address, index);
      if (++written % kBatch == 0) pickle_.continue_list();
    }
    gap(at, space_.end());
    pickle_.end_list();
    pickle_.end_dict();
  }

 private:
  void number(std::string_view key, int64_t value) {
    pickle_.text(key);
    pickle_.integer(value);
  }

  void word(std::string_view key, std::string_view value) {
    pickle_.text(key);
    pickle_.text(value);
  }

  void no_frames() {
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.end_list();
  }

  void frame(std::string_view name, std::string_view file) {
    pickle_.begin_dict();
    word("name", name);
    word("filename", file);
    number("line", 0);
    pickle_.end_dict();
  }

  // From the inside out: the operator, the modules around it, the phase of the step.
  void frames(const MemoryBlock& block) {
    pickle_.text("frames");
    const auto [known, fresh] = frames_.try_emplace({block.op, block.module, block.phase}, 0);
    if (!fresh) return pickle_.refer(known->second);
    pickle_.begin_list();
    std::string path = block.module;
    frame(block.op.empty() ? "no operator" : block.op, path.empty() ? "no module" : path);
    while (!path.empty()) {
      const std::size_t dot = path.rfind('.');
      frame(dot == std::string::npos ? path : path.substr(dot + 1), path);
      path.resize(dot == std::string::npos ? 0 : dot);
    }
    frame(block.phase.empty() ? "before" : block.phase, "step");
    pickle_.end_list();
    known->second = pickle_.remember();
  }

  void event(std::string_view action, std::size_t index, double ms) {
    const MemoryBlock& block = timeline_.blocks[index];
    pickle_.begin_dict();
    word("action", action);
    number("addr", addresses_[index]);
    number("size", block.bytes);
    number("stream", 0);
    number("time_us", std::llround(ms * 1000));
    word("category", name_of(block.category));
    frames(block);
    pickle_.end_dict();
    if (++events_ % kBatch == 0) pickle_.continue_list();
  }

  void made(std::size_t index, double ms) {
    if (timeline_.blocks[index].bytes <= 0) return;
    addresses_[index] = space_.allocate(timeline_.blocks[index].bytes);
    event("alloc", index, ms);
  }

  void freed(std::size_t index, double ms) {
    if (addresses_[index] == 0) return;
    event("free_requested", index, ms);
    event("free_completed", index, ms);
    space_.free(addresses_[index], timeline_.blocks[index].bytes);
    addresses_[index] = 0;
  }

  // The browser's viewer stops with an error unless one of the categories is "unknown".
  void end_of_trace() {
    pickle_.begin_dict();
    word("action", "snapshot");
    number("addr", 0);
    number("size", 0);
    number("stream", 0);
    number("time_us", timeline_.marks.empty() ? 0 : std::llround(timeline_.marks.back().ms * 1000));
    word("category", "unknown");
    no_frames();
    pickle_.end_dict();
  }

  void end_block(int64_t address, std::size_t index) {
    const MemoryBlock& block = timeline_.blocks[index];
    pickle_.begin_dict();
    number("address", address);
    number("size", block.bytes);
    number("requested_size", block.bytes);
    word("state", "active_allocated");
    frames(block);
    pickle_.end_dict();
  }

  void gap(int64_t from, int64_t to) {
    if (from == to) return;
    pickle_.begin_dict();
    number("address", from);
    number("size", to - from);
    number("requested_size", 0);
    word("state", "inactive");
    no_frames();
    pickle_.end_dict();
  }

  const Timeline& timeline_;
  int64_t device_;
  Pickle& pickle_;
  AddressSpace space_;
  std::vector<int64_t> addresses_;  // of each block; 0: not alive
  int64_t events_ = 0;
  std::map<std::tuple<std::string, std::string, std::string>, uint32_t> frames_;
};

}  // namespace

std::string to_snapshot(const std::vector<NamedTimeline>& timelines) {
  Pickle pickle;
  std::vector<DeviceWriter> devices;
  for (const NamedTimeline& each : timelines) {
    devices.emplace_back(each.timeline, static_cast<int64_t>(devices.size()), pickle);
  }
  pickle.begin_dict();
  pickle.text("device_traces");
  pickle.begin_list();
  for (DeviceWriter& device : devices) device.trace();
  pickle.end_list();
  pickle.text("segments");
  pickle.begin_list();
  for (DeviceWriter& device : devices) device.segment();
  pickle.end_list();
  pickle.text("allocator_settings");
  pickle.begin_dict();
  pickle.end_dict();
  pickle.text("external_annotations");
  pickle.begin_list();
  for (DeviceWriter& device : devices) device.annotations();
  pickle.end_list();
  pickle.text("device_names");
  pickle.begin_list();
  for (const NamedTimeline& each : timelines) pickle.text(each.name);
  pickle.end_list();
  pickle.end_dict();
  return pickle.str();
}

}  // namespace reprise
