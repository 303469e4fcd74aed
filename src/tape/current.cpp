// SPDX-License-Identifier: BSD-3-Clause
#include "tape/current.h"

namespace reprise::detail {

std::vector<std::shared_ptr<Tape>>& current_tapes() {
  thread_local std::vector<std::shared_ptr<Tape>> tapes;
  return tapes;
}

Recording::Recording(std::shared_ptr<Tape> tape)
    : seal_(tape),
      locked_while_drawing_(tape->mutex()),
      hooks_([tape](const at::Tensor& tensor) { return tape->pack(tensor); }),
      mode_(*tape) {
  tape->enter_module(current_module());
  current_tapes().push_back(std::move(tape));
}

Recording::~Recording() { current_tapes().pop_back(); }

}  // namespace reprise::detail
