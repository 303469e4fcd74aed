// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include <c10/core/Storage.h>
#include <torch/library.h>

// Operators of the fake accelerator: the CPU's, over the same memory.

namespace reprise::testing {

/// Each registers some with the dispatcher, for good. Once per process.
void register_fake_operators();
void register_fake_cells();
void register_fake_autocast();

/// For registrations that are never taken back: tensors may outlive static objects.
torch::Library& kept_library(const char* name_space, c10::DispatchKey key);

/// Gives a storage of the accelerator new memory of `bytes` bytes, which begins with the first
/// `count` bytes (or as many as fit) at `from`.
void move_to_new_memory(const c10::Storage& storage, const void* from, std::size_t count,
                        std::size_t bytes);

}  // namespace reprise::testing
