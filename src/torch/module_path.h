// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace reprise::detail {

/// The module path that this thread is in by its open ModuleScopes, "blocks.3.ffn"; empty outside.
std::string& current_module();

/// How often this thread has opened or closed a ModuleScope.
int64_t& module_changes();

}  // namespace reprise::detail
