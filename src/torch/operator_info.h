// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <ATen/core/stack.h>

namespace at {
struct RecordFunction;
}
namespace c10 {
class OperatorHandle;
}

// What is known of an operator, looked up once: which arguments it writes to, whether it draws
// random numbers, what it leaves uninitialised. Partly from its schema, partly from a short table
// of what schemas do not say.

namespace reprise::detail {

struct OperatorInfo {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"
  std::size_t arguments = 0;
  std::size_t returns = 0;

  std::vector<int> writes;         // arguments that it writes to, as declared
  std::vector<int> aliases;        // results that share memory with an argument
  std::vector<int> hidden_writes;  // arguments that it writes to without saying so,
  int training = -1;               //   while this boolean argument is true
  int generator = -1;              // argument that takes an at::Generator
  bool composed = false;           // of other operators, for autograd too: no kernel of its own
  bool needs_values = false;       // its results' shapes, or what is no tensor, depend on values
  bool draws = false;              // may draw from a random generator
  bool fills_writes = false;       // what it writes to does not depend on what was there
  bool leaves_garbage = false;     // its new memory is uninitialised
  bool resizes = false;            // changes the storage behind an argument
  bool counts_writes = false;      // versions are counted for it once its kernel has returned

  bool writes_to(int argument) const;
  bool is_alias(int result) const;
  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }

  /// Calls the operator with `stack` as its arguments; leaves the results there.
  void call(torch::jit::Stack& stack) const;

  /// The same from inside a dispatch mode, with versions counted as they are without a mode.
  void call_in_mode(torch::jit::Stack& stack) const;

  const c10::OperatorHandle* handle = nullptr;
};

/// The facts about `op`; the same object for the same operator, for ever. Thread-safe.
const OperatorInfo& operator_info(const c10::OperatorHandle& op);

/// The same for an operator that an observer of LibTorch was called for; null for other functions.
/// `call.name()` must live as long as the process, as the names of operators do.
const OperatorInfo* called_operator(const at::RecordFunction& call);

}  // namespace reprise::detail
