// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

// The cheapest cut between two nodes of a directed graph, by Dinic's algorithm.

namespace reprise::planner {

class MinCut {
 public:
  static constexpr int64_t kNoLimit = int64_t{1} << 61;
  static constexpr int32_t kSource = 0;
  static constexpr int32_t kSink = 1;

  int32_t add_node();

  /// A cut with `from` on the source's side and `to` on the sink's costs `capacity`.
  void add_edge(int32_t from, int32_t to, int64_t capacity);

  /// The cost of the cheapest cut. Throws Stopped.
  int64_t solve(const std::stop_token& stop = {});

  /// After solve(): on which side a node is.
  bool on_source_side(int32_t node) const { return level_[node] >= 0; }

 private:
  struct Edge {
    int32_t to;
    int32_t next;  // of the same node; the reverse edge is at index ^ 1
    int64_t left;
  };

  bool find_levels();
  int64_t push(int32_t node, int64_t most);

  std::vector<int32_t> first_{-1, -1};
  std::vector<Edge> edges_;
  std::vector<int32_t> level_, at_, queue_;
};

}  // namespace reprise::planner
