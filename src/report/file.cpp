// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <reprise/error.h>
#include <reprise/report.h>

// Files that are whole or not there.

namespace reprise {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path, const std::string& reason) {
  throw UsageError("cannot write '" + path + "': " + reason,
                   "name a file in a folder that exists and that you may write to");
}

[[noreturn]] void write_failed(const std::string& path, int error) {
  throw Error("writing '" + path + "' failed: " + std::strerror(error),
              "make room on the disk or name another file; nothing was left behind");
}

// Owns a descriptor and, until it is kept, the temporary file behind it.
class Output {
 public:
  Output(int descriptor, std::string temporary)
      : descriptor_(descriptor), temporary_(std::move(temporary)) {}
  ~Output() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const std::string& path, const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) write_failed(path, errno);
      done += static_cast<std::size_t>(written);
    }
  }

  void flush(const std::string& path) {
    if (::fsync(descriptor_) != 0) write_failed(path, errno);
  }

  // Some file systems report a failed write only here.
  void close(const std::string& path) {
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0 && errno != EINTR) write_failed(path, errno);
  }

  void rename_to(const std::string& path) {
    if (::rename(temporary_.c_str(), path.c_str()) != 0) cannot_write(path, std::strerror(errno));
    temporary_.clear();
  }

 private:
  int descriptor_;
  std::string temporary_;
};

// The name carries the process and a count, so that two writers of one path do not meet.
Output open_beside(const std::string& path) {
  static std::atomic<int> count = 0;
  constexpr int kAttempts = 100;  // a killed process with our number may have left some behind
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string temporary =
        path + "." + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".tmp";
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return Output(descriptor, std::move(temporary));
    if (errno != EEXIST) break;
  }
  cannot_write(path, std::strerror(errno));
}

// A link to a file is written through, as a shell's redirection would.
std::string resolved(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
}

enum class Target { file, stream };

Target target_of(const std::string& path) {
  if (path.empty()) cannot_write(path, "the name is empty");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::directory) cannot_write(path, "it is a folder");
  if (fs::exists(status) && !fs::is_regular_file(status)) return Target::stream;
  if (fs::exists(status) && ::access(path.c_str(), W_OK) != 0) {
    cannot_write(path, std::strerror(errno));
  }
  return Target::file;
}

Output open_stream(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) cannot_write(path, std::strerror(errno));
  return Output(descriptor, "");
}

}  // namespace

void write_file(const std::string& path, const std::string& text) {
  if (target_of(path) == Target::stream) {
    Output output = open_stream(path);
    output.write(path, text);
    output.close(path);
    return;
  }
  const std::string file = resolved(path);
  Output output = open_beside(file);
  output.write(path, text);
  output.flush(path);
  output.close(path);
  output.rename_to(file);
}

void check_writable(const std::string& path) {
  if (target_of(path) == Target::file) open_beside(resolved(path));
}

}  // namespace reprise
