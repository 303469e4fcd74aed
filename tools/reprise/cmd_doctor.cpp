// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include <reprise/error.h>
#include <reprise/meter.h>
#include <reprise/report.h>
#include <reprise/version.h>

#include <ATen/DeviceAccelerator.h>
#include <ATen/Version.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "options.h"
#include "terminal.h"
#include "workloads/digits_data.h"
#include "workloads/libtorch.h"
#include "workloads/words.h"

// reprise doctor: what Reprise finds on this machine, and what is missing.

namespace reprise::command {
namespace {

struct Missing {
  std::string what;
  std::string hint;
};

struct Findings {
  std::string libtorch;
  std::string libtorch_built;
  std::string libtorch_path;
  std::vector<std::string> devices = {"cpu"};
  int64_t threads = torch::get_num_threads();
  int64_t interop_threads = torch::get_num_interop_threads();
  int64_t cores = std::thread::hardware_concurrency();
  std::string instruction_set = at::get_cpu_capability();
  bool allocator_counted = Meter::installed();
  std::optional<std::string> digits;
  std::optional<int64_t> digits_rows;
  std::vector<Missing> missing;
};

void add_missing(Findings& findings, const Error& error) {
  const std::string text = error.what();
  const std::string mark = "\nhint: ";
  const std::size_t end = text.find(mark);
  findings.missing.push_back({text.substr(0, end), text.substr(end + mark.size())});
}

void examine_libtorch(Findings& findings) {
  const workloads::LibtorchVersion version = workloads::loaded_libtorch();
  findings.libtorch = version.text();
  findings.libtorch_built = workloads::built_against_libtorch().text();
  findings.libtorch_path = workloads::libtorch_path();
  try {
    workloads::require_libtorch(version);
  } catch (const Error& error) {
    add_missing(findings, error);
  }
  if (version != workloads::built_against_libtorch()) {
    findings.missing.push_back({"the loaded LibTorch " + findings.libtorch +
                                    " is not the one Reprise was built against (" +
                                    findings.libtorch_built + ")",
                                "build Reprise again, or mend LD_LIBRARY_PATH"});
  }
}

void examine_devices(Findings& findings) {
  const auto accelerator = at::accelerator::getAccelerator();
  if (!accelerator) return;
  for (c10::DeviceIndex i = 0; i < at::accelerator::deviceCount(); ++i) {
    findings.devices.push_back(torch::Device(*accelerator, i).str());
  }
}

void examine_allocator(Findings& findings) {
  if (findings.allocator_counted) return;
  findings.missing.push_back({"CPU bytes are not counted: another allocator is in place",
                              "unset REPRISE_METER; set no other CPU allocator after Reprise's"});
}

void examine_data(Findings& findings) {
  try {
    findings.digits = workloads::find_digits();
    findings.digits_rows = workloads::load_digits(*findings.digits).labels.numel();
  } catch (const Error& error) {
    add_missing(findings, error);
  }
}

Findings examine() {
  Findings findings;
  examine_libtorch(findings);
  examine_devices(findings);
  examine_allocator(findings);
  examine_data(findings);
  return findings;
}

std::string to_text(const Findings& findings) {
  const std::string data =
      findings.digits_rows
          ? *findings.digits + " (" + std::to_string(*findings.digits_rows) + " rows)"
          : "none that can be read";
  const std::string accelerator = findings.devices.size() > 1 ? "" : "; no accelerator";
  return std::string("Reprise          ") + REPRISE_VERSION + "\n" + "LibTorch         " +
         findings.libtorch + ", built against " + findings.libtorch_built + "\n                 " +
         findings.libtorch_path + "\n" + "devices          " + workloads::join(findings.devices) +
         accelerator + "\n" + "threads          " + std::to_string(findings.threads) +
         " in an operator, " + std::to_string(findings.interop_threads) +
         " between operators; the machine has " + std::to_string(findings.cores) + "\n" +
         "instruction set  " + findings.instruction_set + "\n" + "CPU allocator    " +
         (findings.allocator_counted ? "counted by Reprise" : "not counted") + "\n" +
         "digits           " + data + "\n" + "missing          " +
         (findings.missing.empty() ? "nothing" : "see below") + "\n";
}

std::string to_json(const Findings& findings) {
  nlohmann::ordered_json missing = nlohmann::ordered_json::array();
  for (const auto& [what, hint] : findings.missing) {
    missing.push_back({{"what", what}, {"hint", hint}});
  }
  const nlohmann::ordered_json json = {
      {"schema", 1},
      {"reprise", REPRISE_VERSION},
      {"libtorch", findings.libtorch},
      {"libtorch_built_against", findings.libtorch_built},
      {"libtorch_path", findings.libtorch_path},
      {"devices", findings.devices},
      {"threads", findings.threads},
      {"interop_threads", findings.interop_threads},
      {"cores", findings.cores},
      {"instruction_set", findings.instruction_set},
      {"allocator_counted", findings.allocator_counted},
      {"digits_path", findings.digits ? nlohmann::ordered_json(*findings.digits) : nullptr},
      {"digits_rows",
       findings.digits_rows ? nlohmann::ordered_json(*findings.digits_rows) : nullptr},
      {"missing", missing},
  };
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int run(const Options& options) {
  const Findings findings = examine();
  std::cout << to_text(findings);
  write_json(options, to_json(findings));
  for (const auto& [what, hint] : findings.missing) print_error(what, hint);
  return findings.missing.empty() ? kOk : kFailure;
}

}  // namespace

Run add_doctor(CLI::App& verb) {
  const auto options = std::make_shared<Options>(verb);
  add_json_option(*options);
  return [options] { return run(*options); };
}

}  // namespace reprise::command
