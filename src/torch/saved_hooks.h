// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include <c10/core/SafePyObject.h>

namespace torch::autograd {
struct SavedVariableHooks;
}

// The glue between reprise/hooks.h and LibTorch's own hook stack.

namespace reprise::detail {

/// The hooks for one saved tensor, from an entry of the hook stack that HookScope made.
std::unique_ptr<torch::autograd::SavedVariableHooks> make_saved_variable_hooks(
    c10::SafePyObject entry);

}  // namespace reprise::detail
