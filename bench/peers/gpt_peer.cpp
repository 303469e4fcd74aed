// SPDX-License-Identifier: BSD-3-Clause
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <reprise/error.h>
#include <reprise/report.h>

#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "workloads/libtorch.h"
#include "workloads/measured_step.h"
#include "workloads/stores.h"

// The C++ side of the comparison with Python's torch.utils.checkpoint; gpt_peer.py is the other.
// It holds the workload gpt and answers each line of its input with one line of JSON:
//
//     params          the number of parameters, and LibTorch's version
//     save FILE       writes weights, batch and seed of that step for the other side, as
//                     torch.load() reads them
//     step STRATEGY   runs one step, always the same: its time, bytes and loss
//
// A line that it cannot follow is answered with {"error": ...}. It ends with its input.

namespace reprise {
namespace {

using nlohmann::ordered_json;

struct Settings {
  workloads::WorkloadOptions model;
  std::optional<int> threads;
  std::optional<std::string> store;
};

/// The workload, and the strategies that it has been asked for: a store is made once.
struct Side {
  std::unique_ptr<workloads::Workload> gpt;
  std::optional<std::string> store;
  std::map<std::string, workloads::Strategy> strategies;

  const workloads::Strategy& strategy(const std::string& text) {
    auto known = strategies.find(text);
    if (known == strategies.end()) {
      workloads::Strategy strategy = workloads::parse_strategy(text);
      workloads::make_store(strategy, store, *gpt);
      known = strategies.emplace(text, std::move(strategy)).first;
    }
    return known->second;
  }
};

void add_options(CLI::App& app, Settings& settings) {
  app.add_option("--layers", settings.model.layers);
  app.add_option("--width", settings.model.width);
  app.add_option("--heads", settings.model.heads);
  app.add_option("--batch", settings.model.batch);
  app.add_option("--context", settings.model.context);
  app.add_option("--dropout", settings.model.dropout);
  app.add_option("--threads", settings.threads)->check(CLI::PositiveNumber);
  app.add_option("--seed", settings.model.seed);
  app.add_option("--store", settings.store);
}

ordered_json params(workloads::Workload& gpt) {
  return {{"parameters", gpt.parameter_count()}, {"libtorch", workloads::loaded_libtorch().text()}};
}

ordered_json save(workloads::Workload& gpt, const std::string& path) {
  c10::Dict<std::string, torch::Tensor> state;
  for (const auto& entry : gpt.module().named_parameters()) {
    state.insert(entry.key(), entry.value().detach());
  }
  const workloads::Batch batch = gpt.batch(0);
  state.insert("batch.input", batch.input);
  state.insert("batch.target", batch.target);
  state.insert("batch.seed", torch::tensor(static_cast<int64_t>(gpt.step_seed(0))));
  const std::vector<char> bytes = torch::pickle_save(state);
  write_file(path, std::string(bytes.begin(), bytes.end()));
  return {{"saved", path}};
}

ordered_json step(Side& side, const std::string& strategy) {
  const auto measured = workloads::measure_step(*side.gpt, side.strategy(strategy), 0);
  return {{"strategy", strategy},
          {"step_ms", measured.milliseconds},
          {"peak_bytes", measured.peak_bytes},
          {"held_bytes", measured.held_bytes},
          {"loss", measured.results.loss.item<double>()}};
}

ordered_json answer(Side& side, const std::string& line) {
  std::istringstream words(line);
  std::string verb, value, rest;
  words >> verb >> value >> rest;
  const bool one_value = !value.empty() && rest.empty();
  if (verb == "params" && value.empty()) return params(*side.gpt);
  if (verb == "save" && one_value) return save(*side.gpt, value);
  if (verb == "step" && one_value) return step(side, value);
  throw UsageError("unknown request '" + line + "'", "requests: params, save FILE, step STRATEGY");
}

ordered_json answer_or_error(Side& side, const std::string& line) {
  try {
    return answer(side, line);
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

void serve(Side& side) {
  for (std::string line; std::getline(std::cin, line);) {
    const ordered_json json = answer_or_error(side, line);
    std::cout << json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  }
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  CLI::App app("Answers requests for single steps of the workload gpt.");
  reprise::Settings settings;
  reprise::add_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    if (settings.threads) torch::set_num_threads(*settings.threads);
    reprise::Side side{
        reprise::workloads::make_workload("gpt", settings.model), settings.store, {}};
    reprise::serve(side);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
