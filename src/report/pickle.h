// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace reprise::detail {

/// Writes Python's pickle format, protocol 2: the few kinds of values that snapshots have. Values
/// are written one after another; a list or dict is open from begin_ to end_. Keys and values of a
/// dict take turns. Texts that come again are written once.
class Pickle {
 public:
  Pickle();
  void begin_list();
  void end_list();

  /// Between elements of a long list, now and then: readers take them in from one call to the next.
  void continue_list();
  void begin_dict();
  void end_dict();
  void integer(int64_t value);
  void boolean(bool value);

  /// UTF-8; what is not becomes U+FFFD.
  void text(std::string_view value);

  /// Gives the last value a number, to be written again by refer(). Returns the number.
  uint32_t remember();
  void refer(uint32_t number);

  /// The whole pickle. REQUIRES: one value was written, and all that was open is closed.
  std::string str() const;

 private:
  void word(uint32_t value);
  void numbered(char short_form, char long_form, uint32_t number);

  std::string bytes_;
  uint32_t remembered_ = 0;
  std::unordered_map<std::string, uint32_t> texts_;
};

}  // namespace reprise::detail
