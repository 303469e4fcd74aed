// SPDX-License-Identifier: BSD-3-Clause
#include "torch/operator_names.h"

#include <mutex>
#include <set>
#include <unordered_map>

#include <ATen/core/dispatch/Dispatcher.h>

namespace reprise::detail {

std::vector<std::string> overloads_of(const std::string& name) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<std::string, std::vector<std::string>>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = known.find(name); found != known.end()) return found->second;
  // Libraries that were loaded meanwhile may have registered more.
  known.clear();
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    known[op.name].push_back(op.overload_name);
  }
  const auto found = known.find(name);
  return found == known.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> operator_names() {
  std::set<std::string> names;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    names.insert(op.name);
  }
  return {names.begin(), names.end()};
}

std::string overload_name(const c10::OperatorHandle& handle) {
  const c10::OperatorName& op = handle.operator_name();
  return op.name + '.' + (op.overload_name.empty() ? "default" : op.overload_name);
}

}  // namespace reprise::detail
