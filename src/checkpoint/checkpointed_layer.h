// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include <reprise/checkpoint.h>

#include <torch/nn/modules/container/any.h>

// A layer of a Sequential, wrapped from outside. A Sequential calls its elements through AnyModules
// and has the submodules registered beside them: the wrapped layer is another AnyModule for the
// same place, whose ptr() is still the layer's module.

namespace reprise::detail {

/// Calls `plain` as a region. `path` is for messages.
torch::nn::AnyModule wrap_layer(torch::nn::AnyModule plain, CheckpointOptions options,
                                std::string path);

bool is_wrapped(const torch::nn::AnyModule& element);

/// What was wrapped. `element` must be wrapped.
torch::nn::AnyModule unwrap_layer(torch::nn::AnyModule& element);

}  // namespace reprise::detail
