// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>

#include <reprise/plan.h>

#include <zlib.h>

// Step traces for tests of the planner: measured ones from tests/data/, and random ones.

namespace reprise::tests {

inline std::string read_gz(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::string text;
  char part[1 << 16];
  for (int n = 0; (n = gzread(file, part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(n));
  }
  gzclose(file);
  return text;
}

/// "gpt2", "gpt6" or "unet": steps measured once, with the simulator's facts complete.
inline StepTrace measured_trace(const std::string& name) {
  return trace_from_json(
      read_gz(std::string(REPRISE_SOURCE_DIR) + "/tests/data/trace_" + name + ".json.gz"));
}

}  // namespace reprise::tests
