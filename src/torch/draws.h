// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <vector>

#include <ATen/record_function.h>

#include "torch/rng.h"

// Random draws, one by one. The state of a generator at the start of a piece of work does not tell
// what the work draws when other threads draw from the same generator meanwhile. So the state is
// noted before each operator that may draw, and put back before the same operator of the replay.
// The operators are seen by LibTorch's observer, which does not change how they are dispatched.

namespace reprise::detail {

/// The states of the default generators before each drawing operator, in order.
struct DrawLog {
  struct Draw {
    const char* op;  // the schema's own text: the same address for the same operator
    RngState before;
  };
  std::vector<Draw> draws;
  bool writes = false;  // an operator wrote to something in place
};

/// What is done at a drawing operator of this thread. Scopes nest: a recorder also notes what the
/// recorders around it note, but nothing from inside a player that began within it.
class DrawScope {
 public:
  virtual ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

  virtual void before_draw(const char* op) = 0;
  virtual void after_draw() = 0;
  virtual void note_write() {}
  virtual bool plays() const = 0;

 protected:
  DrawScope();

 private:
  const at::RecordFunctionGuard observers_on_;
};

/// Notes this thread's draws while it lives, with the states before them if asked to, and whether
/// anything was written to.
class DrawRecorder final : public DrawScope {
 public:
  DrawRecorder(DrawLog& log, bool states) : log_(log), states_(states) {}
  void note_write() override { log_.writes = true; }
  void before_draw(const char* op) override;
  void after_draw() override {}
  bool plays() const override { return false; }

 private:
  DrawLog& log_;
  const bool states_;
};

/// Makes this thread's draws those of a log while it lives; the stream outside does not move.
class DrawPlayer final : public DrawScope {
 public:
  /// With `open_ended`, the log's recorder is still at work, and draws behind its end are new.
  DrawPlayer(const DrawLog& log, bool open_ended) : log_(log), open_ended_(open_ended) {}
  void before_draw(const char* op) override;
  void after_draw() override;
  bool plays() const override { return true; }

  /// Whether an operator drew that did not draw there in the log.
  bool strayed() const { return strayed_; }

 private:
  const DrawLog& log_;
  const bool open_ended_;
  std::size_t next_ = 0;
  std::optional<RngState> outside_;
  bool strayed_ = false;
};

}  // namespace reprise::detail
