// SPDX-License-Identifier: BSD-3-Clause
#include "torch/operator_names.h"

#include <set>

#include <ATen/core/dispatch/Dispatcher.h>

namespace reprise::detail {

std::vector<std::string> overloads_of(const std::string& name) {
  std::vector<std::string> overloads;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (op.name == name) overloads.push_back(op.overload_name);
  }
  return overloads;
}

std::vector<std::string> operator_names() {
  std::set<std::string> names;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    names.insert(op.name);
  }
  return {names.begin(), names.end()};
}

}  // namespace reprise::detail
