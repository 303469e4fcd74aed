// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

// Random streams: captured before a piece of work, played again for its replay, put back after.

namespace reprise::detail {

/// The states of some generators at one moment.
class RngState {
 public:
  /// The default generators of the CPU and of every device of the accelerator, if there is one
  /// (work may move to any of them), and those in `others`.
  static RngState capture(const std::vector<at::Generator>& others);

  /// One generator alone.
  static RngState of(const at::Generator& generator);

  /// Captures the same generators again, now.
  RngState recapture() const;

  /// Whether both hold the same states of the same generators.
  bool equals(const RngState& other) const;

  /// Puts the captured states into the generators.
  void restore() const;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

/// Held by Reprise from the capture of a generator's state to the end of the operator that draws
/// from it, and while a replay puts another state there: threads share the default generators.
std::recursive_mutex& draw_mutex();

/// The draw mutex, for a thread that records, and that will look at its tapes while it holds it. A
/// replay holds its tape when it comes to draw, so whoever draws takes the tapes first: those of
/// this thread, outermost first. Lockable.
class DrawLock {
 public:
  void lock();
  void unlock();

 private:
  std::vector<std::recursive_mutex*> before_;
};

/// Declares for this thread, while it lives, that `mutex` is taken while drawing.
class LockedWhileDrawing {
 public:
  explicit LockedWhileDrawing(std::recursive_mutex& mutex);
  ~LockedWhileDrawing();
  LockedWhileDrawing(const LockedWhileDrawing&) = delete;
  LockedWhileDrawing& operator=(const LockedWhileDrawing&) = delete;
};

/// Plays a captured stream again while it lives; then the stream goes on where it was.
class RngReplay {
 public:
  explicit RngReplay(const RngState& state) : before_(state.recapture()) { state.restore(); }
  ~RngReplay() { before_.restore(); }
  RngReplay(const RngReplay&) = delete;
  RngReplay& operator=(const RngReplay&) = delete;

 private:
  RngState before_;
};

}  // namespace reprise::detail
