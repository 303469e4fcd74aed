// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tape/tape.h"
#include "torch/module_path.h"

// The tapes that record on this thread.

namespace reprise::detail {

/// Innermost last.
std::vector<std::shared_ptr<Tape>>& current_tapes();

/// Records everything on this thread, as a mode and as hooks, while it lives; then seals the tape.
class Recording {
 public:
  explicit Recording(std::shared_ptr<Tape> tape);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  class Seal {
   public:
    explicit Seal(std::shared_ptr<Tape> tape) : tape_(std::move(tape)) {}
    ~Seal() { tape_->seal(); }

   private:
    std::shared_ptr<Tape> tape_;
  };
  // In this order: the tape is sealed when nothing can be recorded any more.
  Seal seal_;
  LockedWhileDrawing locked_while_drawing_;
  HookScope hooks_;
  DispatchModeScope mode_;
};

}  // namespace reprise::detail
