// SPDX-License-Identifier: BSD-3-Clause
#include "torch/warning.h"

#include <c10/util/Exception.h>

namespace reprise::detail {

void warn(const std::string& message) { TORCH_WARN(message); }

}  // namespace reprise::detail
