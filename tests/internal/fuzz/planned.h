// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tape/schedule.h"

// Plans for the tapes of a program: measured in one run, followed in the next.

namespace reprise::fuzz {

class Plans {
 public:
  explicit Plans(uint64_t seed) : seed_(seed) {}

  /// The program runs from its beginning.
  void rewind() { next_ = 0; }

  /// For the next tape that the program opens.
  std::shared_ptr<detail::StepGuide> next_guide();

  /// Makes a plan for each tape that was measured: for some part of its plain peak, or the least.
  void make();

  /// Tapes that have followed their plan to the end.
  int followed() const;

 private:
  class Guide;
  const uint64_t seed_;
  std::size_t next_ = 0;
  std::vector<std::shared_ptr<Guide>> guides_;
};

}  // namespace reprise::fuzz
