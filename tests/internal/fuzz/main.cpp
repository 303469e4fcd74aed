// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include <ATen/Parallel.h>

#include "operators.h"
#include "runner.h"

// Random programs with fresh seeds, for as long as one likes; or one program again.

namespace {

using namespace reprise::fuzz;

constexpr const char* kUsage =
    "usage: reprise_fuzz [--seconds N] [--count N] [--seed S [--keep 0,3,7]]\n"
    "  --seconds N  run programs for N seconds (default 60)\n"
    "  --count N    run N programs, from --seed on if it is given\n"
    "  --seed S     run this program alone, and print it\n"
    "  --keep LIST  only these instructions of it, or 'none'\n";

int run_one(uint64_t seed, const std::string& keep) {
  Program program = generate(seed);
  if (!keep.empty()) {
    std::set<int> slots;
    std::istringstream list(keep);
    for (std::string slot; keep != "none" && std::getline(list, slot, ',');) {
      slots.insert(std::stoi(slot));
    }
    program = only(program, slots);
  }
  const Finding finding = check(program);
  std::cout << describe(program) << "\n" << finding.trace << finding.what << "\n";
  if (finding.verdict != Verdict::differs) return 0;
  if (keep.empty()) std::cout << "\nshrunk:\n" << explain(program);
  return 1;
}

int run_many(uint64_t first, int64_t count, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Tally tally;
  for (int64_t i = 0; count >= 0 ? i < count : elapsed() < seconds; ++i) {
    const Program program = generate(first + static_cast<uint64_t>(i));
    const Finding finding = check(program);
    tally.add(finding);
    if (finding.verdict == Verdict::differs) std::cout << explain(program) << std::endl;
  }
  std::cout << tally.str() << ", " << elapsed() << " s, seeds from " << first << "\n";
  return tally.differ == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  std::map<std::string, std::string> options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 >= argc ||
        (name != "--seconds" && name != "--count" && name != "--seed" && name != "--keep")) {
      std::cerr << kUsage;
      return 2;
    }
    options[name] = argv[i + 1];
  }
  const bool counted = options.count("--count") > 0;
  if (options.count("--seed") && !counted && !options.count("--seconds")) {
    return run_one(std::stoull(options["--seed"]), options["--keep"]);
  }
  const uint64_t seed = options.count("--seed") ? std::stoull(options["--seed"])
                                                : (uint64_t{std::random_device()()} << 20);
  return run_many(seed, counted ? std::stoll(options["--count"]) : -1,
                  options.count("--seconds") ? std::stod(options["--seconds"]) : 60);
}
