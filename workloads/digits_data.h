// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

// The UCI handwritten digits: a gzip file of comma-separated rows, each 64 pixels from 0 to 16 and
// a label from 0 to 9. A path comes in, two tensors go out.

namespace reprise::workloads {

struct DigitsData {
  at::Tensor pixels;  ///< rows × 64, float32, from 0 to 1
  at::Tensor labels;  ///< rows, int64
};

/// Where digits.csv.gz is: in the folder that the environment variable REPRISE_DATA_DIR names, or
/// else in the source tree or the installed data folder. Throws UsageError, naming where it looked.
std::string find_digits();

/// Reads the whole file, compressed or not. Throws UsageError where it cannot be opened, and Error,
/// naming file and row, where it is truncated, corrupt or not of this form.
DigitsData load_digits(const std::string& path);

}  // namespace reprise::workloads
