// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdio>

#include <reprise/error.h>

#include "workloads/bert.h"
#include "workloads/blocks.h"
#include "workloads/digits.h"
#include "workloads/gpt.h"
#include "workloads/resnet.h"
#include "workloads/script.h"
#include "workloads/unet.h"
#include "workloads/words.h"
#include "workloads/workload.h"

// The workloads by name, each with the options it takes.

namespace reprise::workloads {
namespace {

struct Entry {
  std::string name;
  std::vector<std::string> options;
  std::unique_ptr<Workload> (*make)(const WorkloadOptions&);
};

template <class W>
std::unique_ptr<Workload> make(const WorkloadOptions& options) {
  return std::make_unique<W>(options);
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> kEntries = {
      {"digits", {"--hidden", "--dropout", "--data"}, make<Digits>},
      {"blocks", {"--layers", "--width", "--context", "--batch", "--dropout"}, make<Blocks>},
      {"gpt",
       {"--layers", "--width", "--heads", "--context", "--batch", "--dropout", "--text",
        "--schedule"},
       make<Gpt>},
      {"bert",
       {"--layers", "--width", "--heads", "--context", "--batch", "--dropout", "--text",
        "--schedule"},
       make<Bert>},
      {"resnet50", {"--depth", "--batch", "--size", "--images"}, make<ResNet>},
      {"unet", {"--layers", "--width", "--size", "--batch"}, make<UNet>},
  };
  return kEntries;
}

// Scripts have no name of their own: the file follows on the colon.
const std::string kScript = "script:";
const Entry& script_entry() {
  static const Entry kEntry = {"script:FILE", {"--input", "--loss"}, nullptr};
  return kEntry;
}

struct Given {
  std::string name;
  std::string value;
};

std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}
std::string text_of(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

// The options that only some workloads take, those that were given.
std::vector<Given> given(const WorkloadOptions& options) {
  std::vector<Given> all;
  const auto add = [&all](const char* name, const auto& value) {
    if (value) all.push_back({name, text_of(*value)});
  };
  add("--layers", options.layers);
  add("--width", options.width);
  add("--heads", options.heads);
  add("--context", options.context);
  add("--batch", options.batch);
  add("--hidden", options.hidden);
  add("--dropout", options.dropout);
  add("--depth", options.depth);
  add("--size", options.size);
  add("--schedule", options.schedule);
  add("--input", options.input);
  add("--loss", options.loss);
  add("--data", options.data);
  add("--text", options.text);
  add("--images", options.images);
  return all;
}

const Entry& entry_of(const std::string& name) {
  if (name.starts_with(kScript)) return script_entry();
  for (const Entry& entry : entries()) {
    if (entry.name == name) return entry;
  }
  const std::vector<std::string> names = workload_names();
  throw UsageError("unknown workload '" + name + "'",
                   did_you_mean(name, names, "workloads: " + join(names)));
}

// An option that changes nothing would let its user believe that it did.
void reject_unused(const Entry& entry, const WorkloadOptions& options) {
  for (const auto& [name, value] : given(options)) {
    if (std::find(entry.options.begin(), entry.options.end(), name) == entry.options.end()) {
      throw UsageError(name + " does nothing for the workload '" + entry.name + "'",
                       "it takes " + join(entry.options));
    }
  }
}

void require_positive(const std::string& name, const std::vector<int64_t>& sizes) {
  for (const int64_t size : sizes) {
    if (size < 1) {
      throw UsageError(name + ": sizes must be 1 or more, got " + std::to_string(size),
                       "give whole numbers of 1 or more");
    }
  }
}

void check_values(const WorkloadOptions& options) {
  const auto check = [](const char* name, const std::optional<int64_t>& size) {
    if (size) require_positive(name, {*size});
  };
  check("--layers", options.layers);
  check("--width", options.width);
  check("--heads", options.heads);
  check("--context", options.context);
  check("--batch", options.batch);
  check("--depth", options.depth);
  check("--size", options.size);
  check("--schedule", options.schedule);
  if (options.hidden) require_positive("--hidden", *options.hidden);
  // Written so that NaN fails as well.
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1)) {
    throw UsageError(
        "--dropout: a probability from 0 up to, but not including, 1 is expected, got " +
            std::to_string(*options.dropout),
        "0.1 drops one value in ten");
  }
}

}  // namespace

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  names.push_back(script_entry().name);
  return names;
}

std::string workload_summary() {
  std::vector<std::string> parts;
  for (const Entry& entry : entries()) {
    parts.push_back(entry.name + " (" + join(entry.options) + ")");
  }
  parts.push_back(script_entry().name + " (" + join(script_entry().options) + ")");
  return join(parts);
}

std::string options_text(const WorkloadOptions& options) {
  std::string text;
  for (const auto& [name, value] : given(options)) text += " " + name + " " + value;
  if (options.learning_rate) text += " --learning-rate " + text_of(*options.learning_rate);
  if (options.autocast) text += std::string(" --autocast ") + autocast_name(*options.autocast);
  return text + " --seed " + std::to_string(options.seed);
}

const char* autocast_name(c10::ScalarType type) { return type == c10::kHalf ? "fp16" : "bf16"; }

std::unique_ptr<Workload> make_workload(const std::string& name, const WorkloadOptions& options) {
  const Entry& entry = entry_of(name);
  reject_unused(entry, options);
  check_values(options);
  torch::manual_seed(static_cast<uint64_t>(options.seed));
  if (&entry == &script_entry()) {
    return std::make_unique<Script>(name.substr(kScript.size()), options);
  }
  return entry.make(options);
}

}  // namespace reprise::workloads
