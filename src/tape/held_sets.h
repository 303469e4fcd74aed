// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <vector>

namespace reprise::detail {

class HeldSet;

/// The lock of all held sets, and with it the list of them.
class HeldSetsLock {
 public:
  HeldSetsLock();
  ~HeldSetsLock();
  HeldSetsLock(const HeldSetsLock&) = delete;
  HeldSetsLock& operator=(const HeldSetsLock&) = delete;

  static std::vector<HeldSet*>& sets();

 private:
  const std::lock_guard<std::mutex> lock_;
};

}  // namespace reprise::detail
