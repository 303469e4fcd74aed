// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/error.h>
#include <reprise/meta_scope.h>

#include "torch/meta_mode.h"
#include "torch/phantom.h"

namespace reprise {

struct MetaScope::State {
  State() {
    if (active()) throw UsageError("a MetaScope inside of another one", "one of them is enough");
    scope.emplace(mode);
    detail::MetaMode::current() = &mode;
    detail::reset_phantom_peak();
  }
  ~State() { detail::MetaMode::current() = nullptr; }

  detail::MetaMode mode;
  std::optional<detail::DispatchModeScope> scope;
};

MetaScope::MetaScope() : state_(std::make_unique<State>()) {}

MetaScope::~MetaScope() = default;

bool MetaScope::active() { return detail::MetaMode::current() != nullptr; }

int64_t MetaScope::live_bytes() { return detail::phantom_bytes().live; }

int64_t MetaScope::peak_bytes() { return detail::phantom_bytes().peak; }

void MetaScope::reset_peak() { detail::reset_phantom_peak(); }

const std::set<std::string>& MetaScope::run_operators() const {
  return state_->mode.run_operators();
}

}  // namespace reprise
