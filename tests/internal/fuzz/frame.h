// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "program.h"

// One run of a program: its inputs and its pool, and what operators need to choose operands.

namespace reprise::fuzz {

using at::Tensor;

/// A tensor in the pool.
struct Entry {
  std::string name;
  uint64_t key = 0;
  Tensor tensor;
  bool writable = false;  // as far as known, autograd has saved neither it nor an alias of it
  bool used = false;
};

struct Operand {
  Tensor t;
  std::string name;
};
inline std::ostream& operator<<(std::ostream& out, const Operand& operand) {
  return out << operand.name;
}

/// There is no fitting operand.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Frame {
 public:
  explicit Frame(uint64_t seed);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  /// Runs an instruction. What it refuses to do, or LibTorch does, is noted in the trace.
  void run(const Instruction& instruction);

  // For operators. All choices depend on the instruction's seed and on the pool only.
  int64_t below(int64_t n);
  bool chance(int percent) { return below(100) < percent; }
  double number() { return 0.25 * static_cast<double>(1 + below(8)); }
  using Fits = std::function<bool(const Tensor&)>;
  Operand pick(const Fits& fits);
  Operand any() {
    return pick([](const Tensor&) { return true; });
  }
  Operand floating(int64_t min_dim = 0, int64_t max_dim = 9);  // real
  Operand single(int64_t dim);                                 // float32 or float64
  /// Something to write to: not saved by autograd, mostly. `fits` as for pick().
  Operand writable(const Fits& fits);
  /// A dimension of `t`.
  int64_t dim_of(const Tensor& t) { return t.dim() ? below(t.dim()) : 0; }

  /// Adds a result to the pool; the text says how it was made.
  template <class... Parts>
  void put(const Tensor& result, const Parts&... text) {
    std::ostringstream line;
    (line << ... << text);
    add(result, line.str());
  }
  /// Notes something in the trace that has no result.
  void say(const std::string& line);
  void saves_inputs(bool yes) { saves_inputs_ = yes; }
  void saves_output(bool yes) { saves_output_ = yes; }

  Tensor loss(uint64_t seed);
  /// What the user of the program sees: pool, buffers, generators.
  std::vector<Tensor> outputs() const;

  std::vector<Tensor> leaves;
  Tensor buffer, mean, variance, input, indices, mask;
  at::Generator generator;
  std::vector<Entry> pool;
  std::string trace;
  int refused = 0;

 private:
  void add(const Tensor& result, const std::string& text);
  void add_input(const std::string& name, const Tensor& tensor);
  Operand choose(const std::vector<std::size_t>& fitting);
  void mark_saved(const Tensor& tensor);

  Instruction now_;
  uint64_t state_ = 0;
  uint64_t picks_ = 0;
  int results_ = 0;
  bool saves_inputs_ = true, saves_output_ = true;
};

inline bool is_real(const Tensor& t) { return t.is_floating_point(); }
inline bool is_single(const Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
}

}  // namespace reprise::fuzz
