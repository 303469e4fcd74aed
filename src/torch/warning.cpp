// SPDX-License-Identifier: BSD-3-Clause
#include "torch/warning.h"

#include <mutex>
#include <set>

#include <c10/util/Exception.h>

namespace reprise::detail {

void warn(const std::string& message) { TORCH_WARN(message); }

void warn_once(const std::string& about, const std::string& message) {
  static std::mutex mutex;
  static auto& known = *new std::set<std::string>;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!known.insert(about).second) return;
  }
  warn(message);
}

}  // namespace reprise::detail
