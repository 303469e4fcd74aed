// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <cstdlib>

#include <reprise/error.h>
#include <reprise/report.h>

#include "report_files.h"
#include "terminal.h"
#include "workloads/libtorch.h"
#include "workloads/words.h"

namespace reprise::command {
namespace {

[[noreturn]] void bad_value(const std::string& name, const std::string& text,
                            const std::string& expected) {
  throw UsageError(name + ": '" + text + "' is not " + expected,
                   "'reprise <verb> --help' lists the options and their defaults");
}

std::string whole_number(int64_t least, int64_t most) {
  const std::string text = "a whole number of " + std::to_string(least) + " or more";
  return most == std::numeric_limits<int64_t>::max()
             ? text
             : text + " (at most " + std::to_string(most) + ")";
}

int64_t read_whole(const std::string& name, const std::string& text, int64_t least, int64_t most) {
  const auto value = workloads::parse_whole(text, least, most);
  if (!value) bad_value(name, text, whole_number(least, most));
  return *value;
}

// Bit-identical gradients need kernels that sum in one order; cuBLAS reads its variable when it is
// first used. A choice that the user has made stands.
void make_deterministic(torch::Device device) {
  if (device.is_cpu()) return;
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

std::optional<c10::ScalarType> autocast_type(const Options& options) {
  const auto typed = options.text("--autocast");
  if (!typed) return std::nullopt;
  if (*typed == "bf16") return c10::kBFloat16;
  if (*typed == "fp16") return c10::kHalf;
  bad_value("--autocast", *typed, "bf16 or fp16");
}

}  // namespace

void Options::add(const std::string& name, const std::string& value, const std::string& help) {
  verb_.add_option(name, texts_[name.substr(0, name.find(','))], help)->type_name(value);
}

void Options::add_flag(const std::string& name, const std::string& help) {
  verb_.add_flag(name, help);
}

bool Options::flag(const std::string& name) const { return verb_.count(name) > 0; }

std::optional<std::string> Options::text(const std::string& name) const {
  if (verb_.get_option(name)->empty()) return std::nullopt;
  return texts_.at(name);
}

std::optional<int64_t> Options::whole(const std::string& name, int64_t least, int64_t most) const {
  const auto typed = text(name);
  if (!typed) return std::nullopt;
  return read_whole(name, *typed, least, most);
}

std::optional<double> Options::real(const std::string& name) const {
  const auto typed = text(name);
  if (!typed) return std::nullopt;
  const auto value = workloads::parse_real(*typed);
  if (!value) bad_value(name, *typed, "a finite number");
  return value;
}

std::optional<double> Options::positive_real(const std::string& name) const {
  const auto value = real(name);
  if (value && *value <= 0) bad_value(name, *text(name), "a number above 0");
  return value;
}

std::optional<std::vector<int64_t>> Options::whole_list(const std::string& name) const {
  const auto typed = text(name);
  if (!typed) return std::nullopt;
  std::vector<int64_t> values;
  for (const std::string& part : workloads::split(*typed, ',')) {
    values.push_back(read_whole(name, part, 1, std::numeric_limits<int32_t>::max()));
  }
  return values;
}

void add_json_option(Options& options) {
  options.add("--json", "FILE", "write the result as JSON, too");
}

void add_store_option(Options& options) {
  options.add("--store", "DIR", "the folder, on a disk, that values are offloaded to");
}

std::optional<workloads::BudgetSize> budget_size(const Options& options) {
  const auto text = options.text("--budget");
  if (!text) return std::nullopt;
  const auto size = workloads::parse_budget_size("--budget: ", *text);
  const auto machine = workloads::machine_bytes();
  if (machine && size.bytes > *machine) {
    print_warning("--budget " + *text + " is more than the " + format_bytes(*machine) +
                  " of this machine");
  }
  return size;
}

std::optional<workloads::Strategy> budget_strategy(const Options& options) {
  if (!budget_size(options)) return std::nullopt;
  return workloads::parse_strategy("budget=" + *options.text("--budget"));
}

void add_run_options(Options& options) {
  options.add("workload", "WORKLOAD", "one of: " + workloads::workload_summary());
  options.add("--layers", "N", "number of layers");
  options.add("--width", "N", "width of a layer");
  options.add("--heads", "N", "attention heads");
  options.add("--context", "N", "positions of a sample");
  options.add("--batch", "N", "samples of a batch");
  options.add("--hidden", "N,N,...", "sizes of the hidden layers");
  options.add("--dropout", "P", "probability of dropout, default 0, with gpt and bert 0.1");
  options.add("--data", "FILE", "the data file, where it is not in its usual place");
  options.add("--text", "FILE",
              "the text to learn, plain or gzip, default the one that comes along");
  options.add("--images", "FOLDER", "PPM or PNG images to learn from, default generated ones");
  options.add("--input", "SHAPE", "input of a script, as 8x3x224x224:float or 8x128:int<1000>");
  options.add("--schedule", "N", "steps over which the learning rate falls, default 1500");
  options.add("--depth", "N", "50 (default) or 152");
  options.add("--size", "N", "height and width of an image");
  options.add("--loss", "LOSS", "of a script's output: mean_square (default) or sum");
  options.add("--autocast", "TYPE", "bf16 or fp16: lower precision in forward passes");
  options.add("--seed", "N", "seed of weights, data and dropout, default 0");
  options.add("--threads", "N", "threads of an operator, default LibTorch's");
  options.add("--device", "DEVICE", "cpu (default), cuda, cuda:1, ...");
  add_json_option(options);
  add_report_options(options);
}

workloads::WorkloadOptions workload_options(const Options& options) {
  workloads::WorkloadOptions values;
  values.layers = options.whole("--layers");
  values.width = options.whole("--width");
  values.heads = options.whole("--heads");
  values.context = options.whole("--context");
  values.batch = options.whole("--batch");
  values.hidden = options.whole_list("--hidden");
  values.dropout = options.real("--dropout");
  values.data = options.text("--data");
  values.text = options.text("--text");
  values.images = options.text("--images");
  values.input = options.text("--input");
  values.schedule = options.whole("--schedule");
  values.depth = options.whole("--depth");
  values.size = options.whole("--size");
  values.loss = options.text("--loss");
  values.autocast = autocast_type(options);
  values.seed = options.whole("--seed", 0, std::numeric_limits<int64_t>::max()).value_or(0);
  values.device = workloads::parse_device(options.text("--device").value_or("cpu"));
  return values;
}

std::string workload_name(const Options& options) {
  const auto name = options.text("workload");
  if (name) return *name;
  throw UsageError("a workload is missing",
                   "workloads: " + workloads::join(workloads::workload_names()));
}

std::unique_ptr<workloads::Workload> make_workload(const Options& options,
                                                   std::optional<double> learning_rate) {
  const std::string name = workload_name(options);
  workloads::require_libtorch(workloads::loaded_libtorch());
  workloads::WorkloadOptions values = workload_options(options);
  if (learning_rate) values.learning_rate = *learning_rate;
  if (const auto path = options.text("--json")) check_writable(*path);
  check_report_files(options);
  if (const auto threads = options.whole("--threads", 1, 1024)) {
    torch::set_num_threads(static_cast<int>(*threads));
  }
  make_deterministic(values.device);
  return workloads::make_workload(name, values);
}

void write_json(const Options& options, const std::string& json) {
  if (const auto path = options.text("--json")) write_file(*path, json);
}

}  // namespace reprise::command
