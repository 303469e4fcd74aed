// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace reprise::detail {

/// The module that a parameter or buffer with this name is of: "blocks.3.up.weight" in a model
/// called "gpt" is of "gpt.blocks.3.up".
inline std::string module_of_parameter(const std::string& model, const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::string inside = dot == std::string::npos ? "" : name.substr(0, dot);
  return model + (model.empty() || inside.empty() ? "" : ".") + inside;
}

}  // namespace reprise::detail
