// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace reprise::detail {

/// The overloads that are registered under an operator's name ("aten::mm"); none if it is unknown.
/// The overload without a name is "".
std::vector<std::string> overloads_of(const std::string& name);

/// The names of all registered operators, each once.
std::vector<std::string> operator_names();

/// "aten::mm.default", "aten::mul.Tensor".
std::string overload_name(const c10::OperatorHandle& handle);

}  // namespace reprise::detail
