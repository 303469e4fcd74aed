// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include <c10/util/Exception.h>

namespace reprise::testing {

/// Collects what is warned of on this thread while it lives.
class Warnings {
 public:
  Warnings() : guard_(&handler_) {}

  const std::string& text() const { return handler_.text; }
  bool mention(const std::string& words) const { return text().find(words) != std::string::npos; }

 private:
  struct Handler : c10::WarningHandler {
    void process(const c10::Warning& warning) override { text += warning.msg() + '\n'; }
    std::string text;
  };
  Handler handler_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace reprise::testing
