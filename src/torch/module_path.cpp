// SPDX-License-Identifier: BSD-3-Clause
#include "torch/module_path.h"

namespace reprise::detail {

std::string& current_module() {
  thread_local std::string path;
  return path;
}

int64_t& module_changes() {
  thread_local int64_t changes = 0;
  return changes;
}

}  // namespace reprise::detail
