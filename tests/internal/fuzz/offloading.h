// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tape/offloads.h"

namespace reprise::tests {
class CopyBackend;
}

// A store for the tapes of a program, and random options; with faults or without.

namespace reprise::fuzz {

class Offloading {
 public:
  Offloading(uint64_t seed, bool faults);

  /// For the next tape that the program opens.
  std::shared_ptr<detail::Offloads> next_offloads();

  int64_t injected() const { return store_.stats().faults; }

  /// What tapes have moved so far, and what came back.
  int64_t moved() const { return store_.stats().blocks_sent; }
  int64_t fetched() const { return store_.stats().blocks_fetched; }

  /// What is wrong with the store when the program has ended and its graph is gone; else empty.
  std::string complaint() const;

 private:
  const uint64_t seed_;
  const std::shared_ptr<tests::CopyBackend> copies_;
  const Store store_;
  const std::shared_ptr<detail::FetchOrder> order_;
};

/// Whether it is the message of an injected fault.
bool is_injected(const std::string& error);

}  // namespace reprise::fuzz
