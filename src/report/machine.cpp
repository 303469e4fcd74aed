// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <ctime>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <reprise/html_report.h>

#include <ATen/Version.h>

#include <sys/utsname.h>

// What a report says of the machine.

namespace reprise {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t value = line.find_first_not_of(": \t", line.find(':'));
    if (value != std::string::npos) return line.substr(value);
  }
  return "";
}

std::string memory() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? format_bytes(pages * page) : "";
}

std::string system_name() {
  utsname names = {};
  if (::uname(&names) != 0) return "";
  return std::string(names.sysname) + " " + names.release + ", " + names.machine;
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts = {};
  std::array<char, 32> text;
  if (::gmtime_r(&seconds, &parts) == nullptr) return "";
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return {text.data(), length};
}

}  // namespace

std::vector<Fact> describe_machine() {
  const unsigned cores = std::thread::hardware_concurrency();
  const std::vector<Fact> all = {{"CPU", cpu_model()},
                                 {"cores", cores == 0 ? "" : std::to_string(cores)},
                                 {"instruction set", at::get_cpu_capability()},
                                 {"memory", memory()},
                                 {"system", system_name()},
                                 {"date", now()}};
  std::vector<Fact> known;
  for (const Fact& fact : all) {
    if (!fact.value.empty()) known.push_back(fact);
  }
  return known;
}

}  // namespace reprise
