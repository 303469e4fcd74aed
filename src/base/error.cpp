// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/error.h>

namespace reprise {

Error::Error(const std::string& what, const std::string& hint)
    : std::runtime_error(what + "\nhint: " + hint) {}

}  // namespace reprise
