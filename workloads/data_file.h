// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

// Files of data: where those that come along are, and how a file is read whole, compressed or not.

namespace reprise::workloads {

/// Where the data file of that name is: in the folder that the environment variable
/// REPRISE_DATA_DIR names, or else in the source tree or the installed data folder. Throws
/// UsageError, naming where it looked and `option`, by which the user can name it.
std::string find_data_file(const std::string& name, const std::string& option);

/// How a file is spoken of when it is not what it should be.
struct DataFile {
  std::string path;
  std::string option;          ///< that names another: "--data"
  std::string expected;        ///< "the file must hold …"
  int64_t largest = 64 << 20;  ///< bytes, unpacked
};

/// The whole file, unpacked where it is gzip. Throws UsageError where it cannot be opened, and
/// Error where it is truncated, corrupt or too large.
std::string read_data_file(const DataFile& file);

/// Throws Error: what is wrong with the file, and what it must hold.
[[noreturn]] void reject_data_file(const DataFile& file, const std::string& what);

}  // namespace reprise::workloads
