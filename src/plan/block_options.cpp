// SPDX-License-Identifier: BSD-3-Clause
#include "plan/block_options.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "plan/stop.h"

namespace reprise::planner {
namespace {

struct Tried {
  Choice choice;
  BlockOption cost;
};

// Those that no other beats in bytes kept, time and backward peak at once.
std::vector<Tried> undominated(std::vector<Tried> all) {
  std::sort(all.begin(), all.end(), [](const Tried& a, const Tried& b) {
    const auto key = [](const Tried& t) {
      return std::tuple(t.cost.kept, t.cost.time, t.cost.backward, t.choice.encodes,
                        ~t.choice.kept);
    };
    return key(a) < key(b);
  });
  std::vector<Tried> best;
  for (const Tried& tried : all) {
    const bool beaten = std::any_of(best.begin(), best.end(), [&](const Tried& other) {
      return other.cost.kept <= tried.cost.kept && other.cost.time <= tried.cost.time &&
             other.cost.backward <= tried.cost.backward;
    });
    if (!beaten) best.push_back(tried);
  }
  return best;
}

// A spread in bytes kept, each the fastest within its bytes, and the one of the lowest peak.
std::vector<Tried> thin_out(std::vector<Tried> options, int most) {
  if (static_cast<int>(options.size()) <= most) return options;
  std::vector<std::size_t> chosen;
  const double low = static_cast<double>(options.front().cost.kept);
  const double high = static_cast<double>(options.back().cost.kept);
  for (int i = 0; i < most; ++i) {
    const double limit = low + (high - low) * i / std::max(1, most - 1);
    std::size_t fastest = 0;
    for (std::size_t k = 0; k < options.size(); ++k) {
      if (static_cast<double>(options[k].cost.kept) > limit * (1 + 1e-12)) break;
      if (options[k].cost.time < options[fastest].cost.time) fastest = k;
    }
    chosen.push_back(fastest);
  }
  const auto lowest = std::min_element(options.begin(), options.end(), [](auto& a, auto& b) {
    return a.cost.backward < b.cost.backward;
  });
  chosen.push_back(static_cast<std::size_t>(lowest - options.begin()));
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  std::vector<Tried> few;
  for (std::size_t k : chosen) few.push_back(options[k]);
  return few;
}

// Of those whose backward run follows at once, the fastest at each peak.
std::vector<Tried> fastest_by_peak(std::vector<Tried> all, int64_t gradient) {
  const auto peak = [&](const Tried& t) {
    return std::max(t.cost.forward + gradient, t.cost.backward);
  };
  std::stable_sort(all.begin(), all.end(), [&](const Tried& a, const Tried& b) {
    return std::tuple(peak(a), a.cost.time) < std::tuple(peak(b), b.cost.time);
  });
  std::vector<Tried> best;
  for (const Tried& tried : all) {
    if (best.empty() || tried.cost.time < best.back().cost.time) best.push_back(tried);
  }
  return best;
}

std::vector<Choice> choices_of(const std::vector<Tried>& tried) {
  std::vector<Choice> choices;
  for (const Tried& t : tried) choices.push_back(t.choice);
  return choices;
}

}  // namespace

BlockChoices choose_options(BlockProblem& block, int most, const std::stop_token& stop) {
  std::vector<Tried> apart, at_once;
  for (uint32_t kept = 0; kept < 1U << block.candidates(); ++kept) {
    leave_if_stopped(stop);
    for (bool encodes : {false, true}) {
      if (encodes && !block.can_encode(kept)) continue;
      const Choice choice{kept, encodes};
      apart.push_back({choice, block.simulate(choice, false)});
      if (!encodes) at_once.push_back({choice, block.simulate(choice, true)});
    }
  }
  return {choices_of(thin_out(undominated(std::move(apart)), most)),
          choices_of(fastest_by_peak(std::move(at_once), block.gradient()))};
}

}  // namespace reprise::planner
