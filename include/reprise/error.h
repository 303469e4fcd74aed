// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>

#include <reprise/export.h>

// What Reprise throws. Every error derives from reprise::Error, so that callers can tell ours from
// LibTorch's c10::Error, and every message ends with one line that begins with "hint: ".

namespace reprise {

/// Base of all errors of this library.
class REPRISE_API Error : public std::runtime_error {
 public:
  /// The message becomes "<what>\nhint: <hint>".
  Error(const std::string& what, const std::string& hint);
};

/// A call that can never work as written: a wrong argument, option, name or file.
class REPRISE_API UsageError : public Error {
 public:
  using Error::Error;
};

/// A replay did not bring back what the forward pass had saved: another number of tensors, or a
/// tensor of another shape, dtype or device, or from another operator.
class REPRISE_API RecomputeMismatch : public Error {
 public:
  using Error::Error;
};

}  // namespace reprise
