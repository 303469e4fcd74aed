// SPDX-License-Identifier: BSD-3-Clause
#include "program.h"

#include <algorithm>

#include "operators.h"

namespace reprise::fuzz {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

Program generate(uint64_t seed) {
  Program program;
  program.seed = seed;
  uint64_t state = mix(seed, 1);
  const auto below = [&](uint64_t n) { return (state = mix(state, 2)) % n; };

  program.length = 3 + static_cast<int>(below(18));
  const uint64_t ops = operators().size();
  for (int slot = 0; slot < program.length; ++slot) {
    const int op = static_cast<int>(below(ops));
    program.instructions.push_back({slot, op, mix(seed, 1000 + static_cast<uint64_t>(slot))});
  }
  const uint64_t cut = below(10);
  program.cut = cut < 6 ? Cut::whole : cut < 7 ? Cut::part : cut < 8 ? Cut::two : Cut::nested;
  const int a = static_cast<int>(below(static_cast<uint64_t>(program.length)));
  const int b = static_cast<int>(below(static_cast<uint64_t>(program.length)));
  program.begin = std::min(a, b);
  program.end = std::max(a, b) + 1;
  // What is written through .data after a scope has ended, its tape cannot see: a known limit.
  if (program.cut != Cut::whole) {
    std::erase_if(program.instructions, [](const Instruction& instruction) {
      return operators()[static_cast<std::size_t>(instruction.op)].name == "data written";
    });
  }
  const uint64_t ending = below(20);
  program.ending = ending < 12   ? Ending::backward
                   : ending < 14 ? Ending::twice
                   : ending < 16 ? Ending::second_order
                   : ending < 17 ? Ending::second_order_inside
                   : ending < 19 ? Ending::inside
                                 : Ending::dropped;
  program.late_write = below(20) == 0;
  program.keep_some = below(4) == 0;
  return program;
}

Program only(const Program& program, const std::set<int>& slots) {
  Program smaller = program;
  smaller.instructions.clear();
  for (const Instruction& instruction : program.instructions) {
    if (slots.count(instruction.slot)) smaller.instructions.push_back(instruction);
  }
  return smaller;
}

std::vector<int> scopes_around(const Program& program, int slot) {
  const bool inside = slot >= program.begin && slot < program.end;
  switch (program.cut) {
    case Cut::whole:
      return {0};
    case Cut::part:
      return inside ? std::vector<int>{0} : std::vector<int>{};
    case Cut::two:
      return {slot < program.end ? 0 : 1};
    case Cut::nested:
      return inside ? std::vector<int>{0, 1} : std::vector<int>{0};
  }
  return {};
}

std::string describe(const Program& program) {
  std::string text;
  const std::string part =
      "[" + std::to_string(program.begin) + ", " + std::to_string(program.end) + ")";
  switch (program.cut) {
    case Cut::whole:
      text = "one scope";
      break;
    case Cut::part:
      text = "a scope around " + part;
      break;
    case Cut::two:
      text = "two scopes, the second from " + std::to_string(program.end);
      break;
    case Cut::nested:
      text = "one scope, another inside around " + part;
      break;
  }
  switch (program.ending) {
    case Ending::backward:
      text += ", backward";
      break;
    case Ending::twice:
      text += ", backward twice";
      break;
    case Ending::second_order:
      text += ", second order";
      break;
    case Ending::inside:
      text += ", backward inside";
      break;
    case Ending::second_order_inside:
      text += ", second order inside";
      break;
    case Ending::dropped:
      text += ", graph dropped";
      break;
  }
  if (program.late_write) text += ", input changed before backward";
  if (program.keep_some) text += ", some values kept alive";
  return text;
}

}  // namespace reprise::fuzz
