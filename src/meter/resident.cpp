// SPDX-License-Identifier: BSD-3-Clause
#include <fstream>
#include <string>

#include <reprise/meter.h>

namespace reprise {
namespace {

// A field of /proc/self/status, whose lines read "VmRSS:     1234 kB".
std::optional<int64_t> status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == field && status >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> resident_bytes() { return status_bytes("VmRSS:"); }

std::optional<int64_t> resident_peak_bytes() { return status_bytes("VmHWM:"); }

bool reset_resident_peak() {
  std::ofstream clear_refs("/proc/self/clear_refs");
  clear_refs << "5" << std::flush;  // proc(5): 5 resets the peak resident set size
  return clear_refs.good();
}

}  // namespace reprise
