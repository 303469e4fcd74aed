// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include <reprise/text_style.h>

// What goes to stderr: errors, warnings, and one line of progress, which is only for a terminal.
// And how tables are set on stdout.

namespace reprise::command {

/// "error: <what>" and, on a line of its own, "hint: <hint>". A message whose hint is part of it,
/// as in reprise::Error, is given with an empty hint.
void print_error(const std::string& what, const std::string& hint = "");

/// "warning: <what>".
void print_warning(const std::string& what);

/// As wide as the terminal that stdout is (COLUMNS goes before what it says of itself), and in
/// colour unless NO_COLOR is set. Where stdout is none: without limit and without colour.
TextStyle stdout_style();

/// One line that is written over and over, and wiped when the object goes. Silent where stderr is
/// not a terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text);
  void wipe();

 private:
  bool visible_;
  bool drawn_ = false;
};

}  // namespace reprise::command
