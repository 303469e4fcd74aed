// SPDX-License-Identifier: BSD-3-Clause
#include "plan/min_cut.h"

#include <algorithm>

#include "plan/stop.h"

namespace reprise::planner {

int32_t MinCut::add_node() {
  first_.push_back(-1);
  return static_cast<int32_t>(first_.size()) - 1;
}

void MinCut::add_edge(int32_t from, int32_t to, int64_t capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<int32_t>(edges_.size()) - 1;
  edges_.push_back({from, first_[to], 0});
  first_[to] = static_cast<int32_t>(edges_.size()) - 1;
}

int64_t MinCut::solve(const std::stop_token& stop) {
  int64_t flow = 0;
  while (find_levels()) {
    leave_if_stopped(stop);
    at_ = first_;
    while (const int64_t more = push(kSource, kNoLimit)) flow += more;
  }
  return flow;
}

bool MinCut::find_levels() {
  level_.assign(first_.size(), -1);
  level_[kSource] = 0;
  queue_.assign(1, kSource);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    for (int32_t e = first_[queue_[i]]; e >= 0; e = edges_[e].next) {
      if (edges_[e].left == 0 || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[queue_[i]] + 1;
      queue_.push_back(edges_[e].to);
    }
  }
  return level_[kSink] >= 0;
}

// One path of at most `most`; its depth is that of the levels.
int64_t MinCut::push(int32_t node, int64_t most) {
  if (node == kSink) return most;
  for (int32_t& e = at_[node]; e >= 0; e = edges_[e].next) {
    if (edges_[e].left == 0 || level_[edges_[e].to] != level_[node] + 1) continue;
    const int64_t pushed = push(edges_[e].to, std::min(most, edges_[e].left));
    if (pushed == 0) continue;
    edges_[e].left -= pushed;
    edges_[e ^ 1].left += pushed;
    return pushed;
  }
  return 0;
}

}  // namespace reprise::planner
