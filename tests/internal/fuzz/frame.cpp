// SPDX-License-Identifier: BSD-3-Clause
#include "frame.h"

#include <cmath>

#include <reprise/store.h>

#include "operators.h"

namespace reprise::fuzz {
namespace {

constexpr int64_t kMostElements = 400;
constexpr double kMostMagnitude = 20;

template <class T>
double largest(const Tensor& t, int64_t dim, const char* data) {
  if (dim == t.dim()) {
    const double x = std::abs(static_cast<double>(*reinterpret_cast<const T*>(data)));
    return std::isfinite(x) ? x : INFINITY;
  }
  const int64_t step = t.stride(dim) * static_cast<int64_t>(t.element_size());
  double most = 0;
  for (int64_t i = 0; i < t.size(dim) && most <= kMostMagnitude; ++i) {
    most = std::max(most, largest<T>(t, dim + 1, data + i * step));
  }
  return most;
}

/// Of the elements, or of the real parts. Read past the dispatcher: the tape must see nothing of
/// it.
double magnitude(const Tensor& t) {
  const auto* data = static_cast<const char*>(t.const_data_ptr());
  switch (t.scalar_type()) {
    case at::kFloat:
      return largest<float>(t, 0, data);
    case at::kDouble:
      return largest<double>(t, 0, data);
    case at::kBFloat16:
      return largest<c10::BFloat16>(t, 0, data);
    case at::kComplexFloat:
      return largest<float>(t, 0, data);
    default:
      return 0;
  }
}

bool differentiable(const Tensor& t) { return t.is_floating_point() || t.is_complex(); }

}  // namespace

Frame::Frame(uint64_t seed) {
  generator = at::make_generator<at::CPUGeneratorImpl>(mix(seed, 3));
  auto source = at::make_generator<at::CPUGeneratorImpl>(mix(seed, 4));
  const auto leaf = [&](const char* name, at::IntArrayRef sizes, at::ScalarType type) {
    leaves.push_back(at::randn(sizes, source, at::TensorOptions(type)).requires_grad_());
    add_input(name, leaves.back());
  };
  leaf("a", {4, 4}, at::kFloat);
  leaf("b", {2, 4, 4}, at::kFloat);
  leaf("c", {4}, at::kFloat);
  leaf("d", {4, 4}, at::kDouble);
  leaf("e", {2, 4, 6, 6}, at::kFloat);
  leaf("f", {2, 3}, at::kFloat);
  input = at::randn({4, 4}, source);
  buffer = at::randn({4, 4}, source);
  mean = at::zeros({4});
  variance = at::ones({4});
  indices = at::randint(4, {4}, source);
  mask = at::rand({4, 4}, source).gt(0.5);
  add_input("input", input);
  add_input("buffer", buffer);
}

void Frame::add_input(const std::string& name, const Tensor& tensor) {
  pool.push_back({name, mix(5, pool.size()), tensor});
}

void Frame::run(const Instruction& instruction) {
  now_ = instruction;
  state_ = mix(instruction.seed, 6);
  picks_ = 0;
  results_ = 0;
  const Operator& op = operators()[static_cast<std::size_t>(instruction.op)];
  saves_inputs_ = op.saves_inputs;
  saves_output_ = op.saves_output;
  const std::string name = "v" + std::to_string(instruction.slot);
  try {
    op.run(*this);
  } catch (const Refused& error) {
    say(name + ": " + op.name + " has no " + error.what());
    ++refused;
  } catch (const StoreError&) {
    throw;  // an injected one, in a backward pass inside the operator
  } catch (const std::exception&) {
    say(name + ": " + op.name + " raised");
    ++refused;
  }
}

int64_t Frame::below(int64_t n) {
  state_ = mix(state_, 7);
  return static_cast<int64_t>(state_ % static_cast<uint64_t>(n));
}

Operand Frame::choose(const std::vector<std::size_t>& fitting) {
  const uint64_t pick = mix(now_.seed, 100 + picks_++);
  // Half of the time among the newest, so that chains grow long.
  const std::size_t from = pick % 2 && fitting.size() > 4 ? fitting.size() - 4 : 0;
  std::size_t best = fitting[from];
  for (std::size_t i = from; i < fitting.size(); ++i) {
    if (mix(pick, pool[fitting[i]].key) > mix(pick, pool[best].key)) best = fitting[i];
  }
  pool[best].used = true;
  return {pool[best].tensor, pool[best].name};
}

Operand Frame::pick(const Fits& fits) {
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (fits(pool[i].tensor)) fitting.push_back(i);
  }
  if (fitting.empty()) throw Refused("operand");
  Operand operand = choose(fitting);
  if (saves_inputs_) mark_saved(operand.t);
  return operand;
}

Operand Frame::floating(int64_t min_dim, int64_t max_dim) {
  return pick([&](const Tensor& t) {
    return is_real(t) && t.dim() >= min_dim && t.dim() <= max_dim && t.numel() > 0;
  });
}

Operand Frame::single(int64_t dim) {
  return pick([&](const Tensor& t) { return is_single(t) && t.dim() == dim && t.numel() > 0; });
}

Operand Frame::writable(const Fits& fits) {
  const bool bold = chance(8);  // whatever autograd says
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Entry& entry = pool[i];
    const bool leaf = entry.tensor.is_leaf() && entry.tensor.requires_grad();
    if (fits(entry.tensor) && !leaf && (entry.writable || bold)) fitting.push_back(i);
  }
  if (!fitting.empty() && chance(70)) return choose(fitting);
  saves_inputs_ = false;
  const Operand from = pick(fits);
  saves_output_ = false;
  put(chance(50) ? from.t.clone() : from.t * 1, "copy of ", from);
  return {pool.back().tensor, pool.back().name};
}

void Frame::mark_saved(const Tensor& tensor) {
  if (!tensor.has_storage()) return;
  for (Entry& entry : pool) {
    if (entry.tensor.is_alias_of(tensor)) entry.writable = false;
  }
}

void Frame::say(const std::string& line) { trace += line + '\n'; }

void Frame::add(const Tensor& result, const std::string& text) {
  const std::string name =
      "v" + std::to_string(now_.slot) + (results_ ? "." + std::to_string(results_) : "");
  Entry entry{name, mix(mix(8, static_cast<uint64_t>(now_.slot)), static_cast<uint64_t>(results_)),
              result, !saves_output_};
  ++results_;
  std::string line = name + " = " + text;
  if (result.numel() > kMostElements) {
    entry.tensor = result.reshape({-1}).slice(0, 0, 64).tanh();
    entry.writable = false;
    line += " [first 64, tanh]";
  } else if (differentiable(result) && !(magnitude(result) <= kMostMagnitude)) {
    entry.tensor = at::sgn(result) * 2 + result.sin();
    entry.writable = false;
    mark_saved(result);
    line += " [bounded]";
  }
  if (saves_output_) mark_saved(result);
  // An alias of something that autograd has saved must not be written to either.
  for (const Entry& other : pool) {
    if (other.tensor.is_alias_of(entry.tensor)) entry.writable = entry.writable && other.writable;
  }
  std::ostringstream shape;
  shape << "  # " << result.scalar_type() << result.sizes();
  say(line + shape.str());
  pool.push_back(std::move(entry));
}

Tensor Frame::loss(uint64_t seed) {
  Tensor total;
  for (const Entry& entry : pool) {
    const Tensor& t = entry.tensor;
    const bool wanted = !entry.used || mix(seed, entry.key) % 3 == 0;
    if (!differentiable(t) || !t.requires_grad() || !wanted) continue;
    const Tensor real = t.is_complex() ? at::view_as_real(t.resolve_conj()) : t;
    const bool bends = mix(seed + 1, entry.key) % 2 == 0;
    const Tensor term = (bends ? real.sin() : real).sum().to(at::kDouble);
    total = total.defined() ? total + term : term;
  }
  return total;
}

std::vector<Tensor> Frame::outputs() const {
  const torch::NoGradGuard guard;
  std::vector<Tensor> all;
  for (const Entry& entry : pool) all.push_back(entry.tensor.detach().clone());
  for (const Tensor& t : {buffer, mean, variance}) all.push_back(t.clone());
  all.push_back(generator.get_state());
  return all;
}

}  // namespace reprise::fuzz
