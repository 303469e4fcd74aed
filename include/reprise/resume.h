// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/export.h>

// Resume files: a training run put down in one file and taken up again, bit for bit.

namespace torch {
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace reprise {

class GradScaler;

/// What a resume file holds. Save between two steps, not inside one.
struct ResumeState {
  torch::nn::Module* module = nullptr;           ///< its parameters and buffers. Required
  torch::optim::Optimizer* optimizer = nullptr;  ///< its state and options, if given
  GradScaler* scaler = nullptr;                  ///< if given
  int64_t step = 0;                              ///< steps taken
  std::string run = {};  ///< the run in words of yours: a file of another run is refused
};

/// Writes the state, and that of the default generators of the CPU and of the module's device. The
/// file is either whole or as it was before, also when the disk is full. Throws UsageError when the
/// path cannot be written and Error when the write fails.
REPRISE_API void save_resume_file(const std::string& path, const ResumeState& state);

/// Reads a file into the objects that `state` points to, and sets `state.step` and the generators.
/// Everything is checked before anything is changed. Throws UsageError for a file that is not there
/// or cannot be read, and Error, saying what differs, for one that is no resume file, is of another
/// version, cut off or damaged (by a checksum), of another run, or of a model with other
/// parameters, shapes or types; or that was saved with an optimizer or scaler where none is given
/// now, and the other way round.
REPRISE_API void load_resume_file(const std::string& path, ResumeState& state);

}  // namespace reprise
