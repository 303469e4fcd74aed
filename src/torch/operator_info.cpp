// SPDX-License-Identifier: BSD-3-Clause
#include "torch/operator_info.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reprise::detail {
namespace {

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Statistics that are updated in training, in the order (arguments, training flag).
struct HiddenWriter {
  std::string_view name;
  std::vector<std::string_view> arguments;
  std::string_view training;  // empty: always
};
const std::array<HiddenWriter, 6>& hidden_writers() {
  static const std::array<HiddenWriter, 6> table{{
      {"aten::native_batch_norm", {"running_mean", "running_var"}, "training"},
      {"aten::cudnn_batch_norm", {"running_mean", "running_var"}, "training"},
      {"aten::miopen_batch_norm", {"running_mean", "running_var"}, "training"},
      {"aten::batch_norm_gather_stats", {"running_mean", "running_var"}, ""},
      {"aten::batch_norm_gather_stats_with_counts", {"running_mean", "running_var"}, ""},
      {"aten::batch_norm_update_stats", {"running_mean", "running_var"}, ""},
  }};
  return table;
}

std::unique_ptr<OperatorInfo> examine(const c10::OperatorHandle& op) {
  auto info = std::make_unique<OperatorInfo>();
  const c10::FunctionSchema& schema = op.schema();
  info->name = schema.name();
  info->overload = schema.overload_name();
  info->arguments = schema.arguments().size();
  info->returns = schema.returns().size();
  const HiddenWriter* hidden = nullptr;
  for (const HiddenWriter& writer : hidden_writers()) {
    if (writer.name == info->name) hidden = &writer;
  }
  bool all_out = true;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const int index = static_cast<int>(i);
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      info->writes.push_back(index);
      all_out = all_out && argument.is_out();
    }
    if (hidden && argument.name() == hidden->training) info->training = index;
    if (hidden && std::find(hidden->arguments.begin(), hidden->arguments.end(), argument.name()) !=
                      hidden->arguments.end()) {
      info->hidden_writes.push_back(index);
    }
    const c10::Type& type = *argument.type();
    if (type.kind() == c10::TypeKind::GeneratorType) info->generator = index;
    if (const auto* optional = type.castRaw<c10::OptionalType>()) {
      if (optional->getElementType()->kind() == c10::TypeKind::GeneratorType) {
        info->generator = index;
      }
    }
  }
  for (std::size_t i = 0; i < info->returns; ++i) {
    if (schema.returns()[i].alias_info()) info->aliases.push_back(static_cast<int>(i));
  }
  if (info->name == "aten::_unsafe_view") info->aliases = {0};  // autograd need not know of it
  info->composed = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  info->needs_values =
      op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
  info->draws = op.hasTag(at::Tag::nondeterministic_seeded);
  info->fills_writes =
      !info->writes.empty() &&
      (all_out || one_of(info->name, {"aten::fill_", "aten::zero_", "aten::copy_", "aten::uniform_",
                                      "aten::normal_", "aten::bernoulli_", "aten::random_",
                                      "aten::exponential_", "aten::cauchy_", "aten::log_normal_",
                                      "aten::geometric_"}));
  info->leaves_garbage =
      info->name.rfind("aten::empty", 0) == 0 || info->name.rfind("aten::new_empty", 0) == 0;
  info->resizes = one_of(info->name, {"aten::resize_", "aten::resize_as_", "aten::resize",
                                      "aten::set_", "aten::resize_as_sparse_"});
  info->counts_writes =
      !info->writes.empty() && op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView);
  info->handle = new c10::OperatorHandle(op);  // as long as the process, like its info
  return info;
}

}  // namespace

bool OperatorInfo::writes_to(int argument) const {
  return std::find(writes.begin(), writes.end(), argument) != writes.end();
}

bool OperatorInfo::is_alias(int result) const {
  return std::find(aliases.begin(), aliases.end(), result) != aliases.end();
}

void OperatorInfo::call(torch::jit::Stack& stack) const { handle->callBoxed(&stack); }

// On the way to a mode, version counting is switched off: for most operators it has been set up by
// then. For others (the _foreach family) it is the operators that their kernels call that count.
void OperatorInfo::call_in_mode(torch::jit::Stack& stack) const {
  if (writes.empty() || counts_writes || c10::InferenceMode::is_enabled()) return call(stack);
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  c10::impl::LocalDispatchKeySet counting = keys;
  counting.excluded_ = counting.excluded_.remove(c10::DispatchKey::ADInplaceOrView);
  counting.included_ = counting.included_.add(c10::DispatchKey::ADInplaceOrView);
  const c10::impl::ForceDispatchKeyGuard guard(counting);
  call(stack);
}

const OperatorInfo& operator_info(const c10::OperatorHandle& op) {
  // The schema's address stands for the operator: it costs a pointer hash instead of a name.
  static std::mutex mutex;
  static auto& all = *new std::unordered_map<const void*, std::unique_ptr<OperatorInfo>>;
  thread_local std::unordered_map<const void*, const OperatorInfo*> seen;
  const void* key = &op.schema();
  if (const auto found = seen.find(key); found != seen.end()) return *found->second;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<OperatorInfo>& info = all[key];
  if (!info) info = examine(op);
  seen.emplace(key, info.get());
  return *info;
}

const OperatorInfo* called_operator(const at::RecordFunction& call) {
  thread_local std::unordered_map<const char*, const OperatorInfo*> seen;
  const auto [entry, fresh] = seen.try_emplace(call.name(), nullptr);
  if (!fresh) return entry->second;
  const auto name = call.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (op) entry->second = &operator_info(*op);
  return entry->second;
}

}  // namespace reprise::detail
