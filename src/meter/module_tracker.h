// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include "torch/call_watch.h"

// Which module is running? LibTorch's modules have no hooks: it is the one whose parameter or
// buffer was read last or, where a ModuleScope is open, that. A backward function belongs to the
// module of the forward operator that made it, by the number of its graph node.

namespace reprise::detail {

class ModuleTracker {
 public:
  /// Index of the path; it is added if it is new. 0 is the root, "".
  int32_t index_of(const std::string& path);
  const std::string& path(int32_t module) const { return paths_[static_cast<std::size_t>(module)]; }
  int32_t count() const { return static_cast<int32_t>(paths_.size()); }

  /// Says which module a parameter or buffer belongs to.
  void know(const at::Tensor& tensor, int32_t module);

  /// The module that a known parameter or buffer belongs to; -1 for other tensors.
  int32_t module_of(const at::Tensor& tensor) const;

  // What a CallListener hears; each gives the index of the module that runs now.

  /// REQUIRES: the call is outermost.
  int32_t call_begins(const WatchedCall& call);
  int32_t node_begins(const WatchedNode& node);
  int32_t node_ends();

  /// Forgets which modules ran.
  void start_pass();

 private:
  struct Thread {
    int32_t last_read = 0;            // module of the parameter that was read last
    int32_t last_node = 0;            // module of the backward function that ran last
    std::vector<int32_t> nodes;       // modules of the backward functions that it is in
    std::map<int64_t, int32_t> made;  // modules of the nodes it made, from a number on
  };
  int32_t module_of_node(const WatchedNode& node) const;

  std::vector<std::string> paths_{std::string()};
  std::unordered_map<std::string, int32_t> indices_{{std::string(), 0}};
  std::unordered_map<const c10::StorageImpl*, int32_t> known_;
  mutable std::mutex mutex_;  // for what follows; a backward pass may have threads of its own
  std::unordered_map<uint64_t, Thread> threads_;
};

}  // namespace reprise::detail
