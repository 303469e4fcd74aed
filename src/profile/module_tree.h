// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <reprise/profile.h>

namespace reprise::detail {

/// The figures of modules, by path, as a tree in depth-first order: the root first, parents that
/// were not named added, children in the order in which they come here. Shares and classes are
/// filled in; classes only where there are times.
std::vector<ModuleProfile> module_tree(const std::vector<std::string>& paths,
                                       const std::vector<ModuleFigures>& figures);

}  // namespace reprise::detail
