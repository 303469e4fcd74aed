// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <reprise/export.h>

namespace reprise {

/// The words in `known` that `word` is probably a misspelling of, nearest first; often none.
REPRISE_API std::vector<std::string> nearest_words(std::string_view word,
                                                   const std::vector<std::string>& known);

}  // namespace reprise
