// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <reprise/policy.h>

#include "tape/offloads.h"

// A policy's rules, and what is learnt about them while scopes use them.

namespace reprise {

struct Rule {
  Policy::Predicate matches;
  Action action;
  Strength strength;
  std::string label;
  bool quiet = false;  // of a preset: no word when it matches nothing
};

struct Policy::Rules {
  std::vector<Rule> list;
  std::optional<Action> otherwise;
  std::optional<detail::Destination> destination;
  bool audit = true;

  // Shared by all scopes of one name whose policies have the same rules, by their labels: a policy
  // is often made anew for each step.
  struct Learnt {
    std::atomic<bool> audited{false};
    std::atomic<bool> warned{false};
    std::mutex mutex;
    std::set<std::string> distrusted;  // values whose replay gave other bits, see Applied::key()
    std::shared_ptr<detail::FetchOrder> fetch_order = std::make_shared<detail::FetchOrder>();
  };
  Learnt& learnt(const std::string& scope) const;

  /// The action for values that no rule matches.
  Action fallback() const;

  struct Verdict {
    Action action;
    const Rule* rule;  // null: the fallback
  };
  /// Throws UsageError when two `must` rules want different things.
  Verdict judge(const ValueView& value, std::vector<bool>* used) const;
};

}  // namespace reprise
