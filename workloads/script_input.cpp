// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/script_input.h"

#include <limits>
#include <string_view>
#include <utility>

#include <reprise/error.h>

#include <ATen/Functions.h>

#include "workloads/words.h"

namespace reprise::workloads {
namespace {

[[noreturn]] void reject(const std::string& text, const std::string& problem) {
  throw UsageError("--input: '" + text + "': " + problem,
                   "write sizes and kind, as 8x3x224x224, 8x3x224x224:float or 8x128:int<1000>");
}

std::optional<int64_t> parse_kind(const std::string& text, std::string_view kind) {
  if (kind == "float") return std::nullopt;
  constexpr std::string_view kBegin = "int<";
  if (!kind.starts_with(kBegin) || !kind.ends_with(">")) {
    reject(text, "unknown kind '" + std::string(kind) + "'");
  }
  kind.remove_prefix(kBegin.size());
  kind.remove_suffix(1);
  const auto below = parse_whole(kind, 1, std::numeric_limits<int64_t>::max());
  if (!below) {
    reject(text, "'" + std::string(kind) + "' is not a whole number of 1 or more");
  }
  return below;
}

}  // namespace

at::Tensor ScriptInput::draw(at::Generator generator) const {
  if (below) return at::randint(0, *below, sizes, std::move(generator), at::kLong);
  return at::randn(sizes, std::move(generator));
}

ScriptInput parse_script_input(const std::string& text) {
  ScriptInput input;
  const std::size_t colon = text.find(':');
  for (const std::string& part : split(std::string_view(text).substr(0, colon), 'x')) {
    const auto size = parse_whole(part, 1, std::numeric_limits<int32_t>::max());
    if (!size) reject(text, "the size '" + part + "' is not a whole number of 1 or more");
    input.sizes.push_back(*size);
  }
  if (colon != std::string::npos) {
    input.below = parse_kind(text, std::string_view(text).substr(colon + 1));
  }
  return input;
}

}  // namespace reprise::workloads
