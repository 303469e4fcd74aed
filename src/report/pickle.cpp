// SPDX-License-Identifier: BSD-3-Clause
#include "report/pickle.h"

#include <limits>

#include "base/text_width.h"

// The opcodes are those that torch.jit.pickle writes, too: the viewers' own readers know no others.

namespace reprise::detail {

Pickle::Pickle() : bytes_("\x80\x02") {}

void Pickle::begin_list() { bytes_ += "]("; }
void Pickle::end_list() { bytes_ += 'e'; }
void Pickle::continue_list() { bytes_ += "e("; }
void Pickle::begin_dict() { bytes_ += "}("; }
void Pickle::end_dict() { bytes_ += 'u'; }

// Little-endian, as all numbers here.
void Pickle::word(uint32_t value) {
  for (int byte = 0; byte < 4; ++byte) bytes_ += static_cast<char>((value >> (8 * byte)) & 0xFF);
}

void Pickle::integer(int64_t value) {
  if (value >= 0 && value < 256) return numbered('K', 'J', static_cast<uint32_t>(value));
  if (value >= std::numeric_limits<int32_t>::min() &&
      value <= std::numeric_limits<int32_t>::max()) {
    bytes_ += 'J';
    word(static_cast<uint32_t>(value));
    return;
  }
  const auto bits = static_cast<uint64_t>(value);
  bytes_ += "\x8a\x08";
  word(static_cast<uint32_t>(bits));
  word(static_cast<uint32_t>(bits >> 32));
}

void Pickle::boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }

void Pickle::text(std::string_view value) {
  const auto [entry, fresh] = texts_.try_emplace(std::string(value), 0);
  if (!fresh) return refer(entry->second);
  std::string utf8_text;
  while (!value.empty()) utf8_text += utf8(take_character(value));
  bytes_ += 'X';
  word(static_cast<uint32_t>(utf8_text.size()));
  bytes_ += utf8_text;
  entry->second = remember();
}

// A number that fits one byte has opcodes of its own.
void Pickle::numbered(char short_form, char long_form, uint32_t number) {
  const bool fits = number < 256;
  bytes_ += fits ? short_form : long_form;
  if (fits) {
    bytes_ += static_cast<char>(number);
  } else {
    word(number);
  }
}

uint32_t Pickle::remember() {
  numbered('q', 'r', remembered_);
  return remembered_++;
}

void Pickle::refer(uint32_t number) { numbered('h', 'j', number); }

std::string Pickle::str() const { return bytes_ + "."; }

}  // namespace reprise::detail
