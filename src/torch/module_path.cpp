// SPDX-License-Identifier: BSD-3-Clause
#include "torch/module_path.h"

namespace reprise::detail {

std::string& current_module() {
  thread_local std::string path;
  return path;
}

}  // namespace reprise::detail
