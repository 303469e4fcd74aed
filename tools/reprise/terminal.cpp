// SPDX-License-Identifier: BSD-3-Clause
#include "terminal.h"

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <unistd.h>

#include <sys/ioctl.h>

#include "workloads/words.h"

namespace reprise::command {
namespace {

bool on_terminal(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

// https://no-color.org: any value but the empty one.
bool coloured(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  return on_terminal(descriptor) && (no_color == nullptr || *no_color == '\0');
}

int64_t columns(int descriptor) {
  const char* typed = std::getenv("COLUMNS");
  const auto given = workloads::parse_whole(typed == nullptr ? "" : typed, 1, 1 << 20);
  if (given) return *given;
  winsize size = {};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

constexpr const char* kClearLine = "\r\033[K";

}  // namespace

void print_error(const std::string& what, const std::string& hint) {
  std::cout.flush();
  std::cerr << (coloured(STDERR_FILENO) ? "\033[1;31merror:\033[0m " : "error: ") << what << "\n";
  if (!hint.empty()) std::cerr << "hint: " << hint << "\n";
}

void print_warning(const std::string& what) {
  std::cout.flush();
  std::cerr << (coloured(STDERR_FILENO) ? "\033[1;33mwarning:\033[0m " : "warning: ") << what
            << "\n";
}

TextStyle stdout_style() {
  if (::isatty(STDOUT_FILENO) != 1) return {};
  return {columns(STDOUT_FILENO), coloured(STDOUT_FILENO)};
}

ProgressLine::ProgressLine() : visible_(on_terminal(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() { wipe(); }

void ProgressLine::wipe() {
  if (drawn_) std::cerr << kClearLine << std::flush;
  drawn_ = false;
}

void ProgressLine::show(const std::string& text) {
  if (!visible_) return;
  std::cerr << kClearLine << text << std::flush;
  drawn_ = true;
}

}  // namespace reprise::command
