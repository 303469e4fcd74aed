// SPDX-License-Identifier: BSD-3-Clause
#include "torch/buffer_guard.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

#include "torch/below_autograd.h"
#include "torch/geometry.h"
#include "torch/ivalues.h"
#include "torch/operator_info.h"

namespace reprise::detail {

struct BufferGuard::State {
  struct Written {
    c10::Storage storage;
    c10::Storage contents;  // before the first write
    std::optional<c10::VariableVersion> counter;
    uint32_t version = 0;
  };
  // By the addresses of storages. Only what code of the region hands to an operator counts as
  // existing before: kernels write to memory of their own, too.
  std::unordered_set<const void*> made;
  std::unordered_map<const void*, c10::Storage> existing;  // kept, so that no address is used again
  std::unordered_set<const void*> saved;
  std::vector<Written> written;
  const at::RecordFunctionGuard observers_on;

  void see(const at::Tensor& tensor) {
    const void* address = tensor.storage().unsafeGetStorageImpl();
    if (made.count(address) || tensor.storage().data_ptr().get_context() == nullptr) return;
    existing.emplace(address, tensor.storage());
  }

  void save(const at::Tensor& tensor) {
    const void* address = tensor.storage().unsafeGetStorageImpl();
    if (!existing.count(address) || !saved.insert(address).second) return;
    const BelowAutograd below;
    Written entry{tensor.storage(), clone_storage(tensor.storage()), {}};
    if (!tensor.is_inference()) {
      entry.counter = tensor.unsafeGetTensorImpl()->version_counter();
      entry.version = entry.counter->current_version();
    }
    written.push_back(std::move(entry));
  }
};

struct BufferWatch {
  std::vector<BufferGuard*> guards;
  int depth = 0;
  bool busy = false;  // our own operators
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;

  template <class Work>
  void for_each_guard(Work&& work) {
    busy = true;
    const auto done = c10::make_scope_exit([this] { busy = false; });
    for (BufferGuard* guard : guards) work(*guard->state_);
  }
};

namespace {

thread_local BufferWatch watch;

template <class Values, class Visit>
void visit_plain_tensors(const Values& values, Visit&& visit) {
  visit_tensors(values, [&](const at::Tensor& tensor) {
    if (has_plain_storage(tensor)) visit(tensor);
  });
}

// TorchScript calls operators with its whole stack, of which the last values are theirs.
c10::ArrayRef<const c10::IValue> last(c10::ArrayRef<const c10::IValue> values, std::size_t count) {
  return values.size() > count ? values.slice(values.size() - count) : values;
}

void save_written(BufferGuard::State& state, const OperatorInfo& info,
                  c10::ArrayRef<const c10::IValue> inputs) {
  const auto save = [&](int argument) {
    visit_plain_tensors(inputs.slice(argument, 1), [&](const at::Tensor& t) { state.save(t); });
  };
  for (const int argument : info.writes) save(argument);
  for (const int argument : info.hidden_writes) save(argument);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  if (watch.busy) return nullptr;
  const OperatorInfo* info = called_operator(call);
  const auto inputs = info ? last(call.inputs(), info->arguments) : call.inputs();
  const bool outermost = watch.depth++ == 0;
  watch.for_each_guard([&](BufferGuard::State& state) {
    if (outermost) visit_plain_tensors(inputs, [&](const at::Tensor& t) { state.see(t); });
    if (info && inputs.size() == info->arguments) save_written(state, *info, inputs);
  });
  return nullptr;
}

void on_end(const at::RecordFunction& call, at::ObserverContext*) {
  if (watch.busy || --watch.depth > 0) return;
  const OperatorInfo* info = called_operator(call);
  const c10::ArrayRef<const c10::IValue> all(call.outputs().data(), call.outputs().size());
  const auto outputs = info ? last(all, info->returns) : all;
  watch.for_each_guard([&](BufferGuard::State& state) {
    visit_plain_tensors(outputs, [&](const at::Tensor& tensor) {
      const void* address = tensor.storage().unsafeGetStorageImpl();
      if (!state.existing.count(address)) state.made.insert(address);
    });
  });
}

}  // namespace

BufferGuard::BufferGuard() : state_(std::make_unique<State>()) {
  if (watch.guards.empty()) {
    watch.handle = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                                  .scopes({at::RecordScope::FUNCTION})
                                                  .needsInputs(true)
                                                  .needsOutputs(true));
    watch.depth = 0;
  }
  watch.guards.push_back(this);
}

BufferGuard::~BufferGuard() {
  watch.guards.pop_back();
  if (watch.guards.empty()) at::removeCallback(watch.handle);
  watch.busy = true;
  const BelowAutograd below;
  for (auto entry = state_->written.rbegin(); entry != state_->written.rend(); ++entry) {
    copy_storage(entry->contents, entry->storage);
    if (entry->counter) entry->counter->set_version(entry->version);
  }
  watch.busy = false;
}

}  // namespace reprise::detail
