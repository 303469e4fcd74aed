// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include <reprise/export.h>

namespace reprise {

/// While it lives, operators on this thread compute shapes and no values. Their results say that
/// they are tensors of the CPU, so that models and LibTorch's functions take the ways that they
/// take there, but their memory is only reserved address space: nothing is written to it and no
/// allocator counts it. For the sizes of models that would not fit, or would take long:
///
///     MetaScope shapes;
///     auto model = make_model();          // no memory is used for parameters
///     Profile profile = profile_step(ModulePaths(*model), [&] { return loss_of(model); });
///
/// Backward passes work too. Tensors from before may be read; they are not written to. Reading a
/// value (item(), a branch on a tensor) throws Error, since there is none. Scopes do not nest: a
/// second one on a thread is a UsageError, as is a device other than the CPU in a factory.
///
/// Where LibTorch has no shape function for an operator, and Reprise neither, its CPU kernel is run
/// on zeros, with real memory for as long as it runs; see run_operators().
class REPRISE_API MetaScope {
 public:
  MetaScope();
  ~MetaScope();  ///< REQUIRES: the thread that made it
  MetaScope(const MetaScope&) = delete;
  MetaScope& operator=(const MetaScope&) = delete;

  /// Whether one lives on this thread.
  static bool active();

  /// Bytes of the tensors without memory that are alive, and the most since reset_peak(), or since
  /// the scope began: what a meter would count with memory, but for the scratch of kernels. Of all
  /// threads together.
  static int64_t live_bytes();
  static int64_t peak_bytes();
  static void reset_peak();

  /// Operators whose kernels were run, by name: what they allocated and took is real.
  const std::set<std::string>& run_operators() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
