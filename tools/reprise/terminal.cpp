// SPDX-License-Identifier: BSD-3-Clause
#include "terminal.h"

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <unistd.h>

namespace reprise::command {
namespace {

bool on_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

// https://no-color.org: any value but the empty one.
bool coloured() {
  const char* no_color = std::getenv("NO_COLOR");
  return on_terminal() && (no_color == nullptr || *no_color == '\0');
}

constexpr const char* kClearLine = "\r\033[K";

}  // namespace

void print_error(const std::string& what, const std::string& hint) {
  std::cout.flush();
  std::cerr << (coloured() ? "\033[1;31merror:\033[0m " : "error: ") << what << "\n";
  if (!hint.empty()) std::cerr << "hint: " << hint << "\n";
}

void print_warning(const std::string& what) {
  std::cout.flush();
  std::cerr << (coloured() ? "\033[1;33mwarning:\033[0m " : "warning: ") << what << "\n";
}

ProgressLine::ProgressLine() : visible_(on_terminal()) {}

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
