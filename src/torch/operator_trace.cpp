// SPDX-License-Identifier: BSD-3-Clause
#include "torch/operator_trace.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <ATen/core/Tensor.h>

namespace reprise::detail {
namespace {

struct Watch {
  std::vector<std::string>* lines = nullptr;
  int depth = 0;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

thread_local Watch watch;

void describe(std::ostream& out, const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) {
      out << "none";
    } else {
      out << c10::toString(tensor.scalar_type()) << tensor.sizes();
    }
  } else if (value.isTensorList()) {
    const char* comma = "{";
    for (const at::Tensor& tensor : value.toTensorVector()) {
      out << std::exchange(comma, ", ");
      describe(out, tensor);
    }
    out << '}';
  } else if (value.isScalar() || value.isBool() || value.isIntList() || value.isNone()) {
    out << value;
  } else {
    out << value.tagKind();
  }
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  if (watch.depth++ > 0 || watch.lines == nullptr) return nullptr;
  std::ostringstream line;
  line << call.name() << '(';
  const char* comma = "";
  for (const c10::IValue& input : call.inputs()) {
    line << std::exchange(comma, ", ");
    describe(line, input);
  }
  line << ')';
  watch.lines->push_back(line.str());
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) { --watch.depth; }

constexpr std::size_t kBefore = 3, kAfter = 5;

}  // namespace

OperatorTrace::OperatorTrace(std::vector<std::string>& lines)
    : outer_lines_(std::exchange(watch.lines, &lines)), outer_depth_(watch.depth) {
  if (outer_lines_ == nullptr) {
    watch.handle = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                                  .scopes({at::RecordScope::FUNCTION})
                                                  .needsInputs(true));
  }
  watch.depth = 0;
}

OperatorTrace::~OperatorTrace() {
  watch.lines = outer_lines_;
  watch.depth = outer_depth_;
  if (outer_lines_ == nullptr) at::removeCallback(watch.handle);
}

std::string first_difference(const std::vector<std::string>& forward,
                             const std::vector<std::string>& replay, bool may_end_early) {
  const auto [in_forward, in_replay] =
      std::mismatch(forward.begin(), forward.end(), replay.begin(), replay.end());
  if (in_replay == replay.end() && (in_forward == forward.end() || may_end_early)) return {};
  const auto place = static_cast<std::size_t>(in_forward - forward.begin());
  const std::size_t first = place < kBefore ? 0 : place - kBefore;
  const std::size_t last = std::min(place + kAfter, std::max(forward.size(), replay.size()));
  const auto line = [](const std::vector<std::string>& lines, std::size_t i) {
    return i < lines.size() ? lines[i] : std::string("(ended)");
  };
  std::size_t width = 16;
  for (std::size_t i = first; i < last; ++i) width = std::max(width, line(forward, i).size());
  std::ostringstream out;
  const auto row = [&](const std::string& mark, std::string left, const std::string& right) {
    left.resize(width, ' ');
    out << '\n' << mark << left << "  " << right;
  };
  row("  ", "forward pass", "replay");
  for (std::size_t i = first; i < last; ++i) {
    row(i == place ? "> " : "  ", line(forward, i), line(replay, i));
  }
  return out.str();
}

}  // namespace reprise::detail
