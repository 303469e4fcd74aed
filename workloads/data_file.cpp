// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/data_file.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>
#include <zlib.h>

#include <reprise/error.h>
#include <reprise/report.h>

#include "workloads/words.h"

namespace reprise::workloads {
namespace {

namespace fs = std::filesystem;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};

std::vector<std::string> data_folders() {
  if (const char* chosen = std::getenv("REPRISE_DATA_DIR")) return {chosen};
  std::vector<std::string> folders;
#ifdef REPRISE_DATA_DIR
  folders.emplace_back(REPRISE_DATA_DIR);
#endif
#ifdef REPRISE_INSTALL_DATA_DIR
  folders.emplace_back(REPRISE_INSTALL_DATA_DIR);
#endif
  return folders;
}

}  // namespace

std::string find_data_file(const std::string& name, const std::string& option) {
  const std::vector<std::string> folders = data_folders();
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / name;
    std::error_code error;
    if (fs::exists(path, error)) return path.string();
  }
  throw UsageError("the data file " + name + " is not in " + join(folders),
                   "name it with " + option + " FILE, or its folder with REPRISE_DATA_DIR=DIR");
}

void reject_data_file(const DataFile& file, const std::string& what) {
  throw Error("'" + file.path + "': " + what, file.expected);
}

// zlib checks the length and the sum at the end of each gzip member.
std::string read_data_file(const DataFile& file) {
  const std::unique_ptr<gzFile_s, CloseGzip> stream(gzopen(file.path.c_str(), "rb"));
  if (!stream) {
    throw UsageError("cannot open '" + file.path + "': " + std::strerror(errno),
                     "name the file with " + file.option + " FILE");
  }
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const int count = gzread(stream.get(), buffer.data(), buffer.size());
    int error = Z_OK;
    const std::string message = gzerror(stream.get(), &error);
    if (error == Z_ERRNO) {
      reject_data_file(file, std::string("cannot be read: ") + std::strerror(errno));
    }
    if (error == Z_BUF_ERROR) reject_data_file(file, "is truncated");
    if (count < 0 || error != Z_OK) reject_data_file(file, "is corrupt (" + message + ")");
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (static_cast<int64_t>(text.size()) > file.largest) {
      reject_data_file(file,
                       "holds more than " + format_bytes(file.largest) + ", so it is another file");
    }
  }
}

}  // namespace reprise::workloads
