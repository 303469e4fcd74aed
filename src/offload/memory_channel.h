// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "offload/channel.h"

namespace reprise::detail {

/// A pool of host memory. A transfer is a copy, done when it is submitted. `advice` may be empty.
std::unique_ptr<Channel> memory_channel(std::shared_ptr<void> pool, int64_t bytes, std::string path,
                                        std::string advice);

}  // namespace reprise::detail
