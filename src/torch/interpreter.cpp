// SPDX-License-Identifier: BSD-3-Clause
#include "torch/interpreter.h"

#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>

#include "torch/dispatch_mode.h"

namespace reprise::detail {
namespace {

// The questions below concern tensors that are themselves Python objects (subclasses), of which we
// make none.
[[noreturn]] void no_subclasses() {
  TORCH_CHECK(false, "reprise: a tensor subclass asked the C++ interpreter table a question");
}

// Some members exist only in newer LibTorch versions, so they go without `override`.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsuggest-override"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Winconsistent-missing-override"
#endif

struct Table final : c10::impl::PyInterpreterVTable {
  std::string name() const override { return "reprise"; }

  void incref(PyObject* object) const override { from_safe_object(object).retain(); }
  void decref(PyObject* object) const override { from_safe_object(object).release(); }
  virtual bool try_incref(const c10::impl::PyObjectSlot&) const { return false; }
  virtual size_t refcnt(PyObject*) const { return 1; }

  // Asked for every detach() under a dispatch mode. An empty pointer would mean "no opinion", which
  // LibTorch does not survive for sparse tensors; so make the ordinary copy, past the modes.
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* self) const override {
    c10::impl::ExcludeDispatchKeyGuard past_modes(
        c10::DispatchKeySet(c10::DispatchKey::Python) |
        c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot));
    return self->shallow_copy_and_detach(c10::VariableVersion(0),
                                         /*allow_tensor_metadata_change=*/false);
  }

  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    dispatch_to_innermost_mode(op, stack);
  }

  void reportErrorCallback(PyObject*, c10::DispatchKey) const override {}
  void python_op_registration_trampoline(const c10::OperatorHandle&, c10::DispatchKey,
                                         c10::DispatchKeySet, torch::jit::Stack*, bool,
                                         bool) const override {
    no_subclasses();
  }
  void throw_abstract_impl_not_imported_error(std::string, const char*,
                                              const char*) const override {}
  void python_dispatcher(const c10::OperatorHandle&, c10::DispatchKeySet,
                         torch::jit::Stack*) const override {
    no_subclasses();
  }

  bool is_contiguous(const c10::TensorImpl*, at::MemoryFormat) const override { no_subclasses(); }
  virtual c10::SymBool sym_is_contiguous(const c10::TensorImpl*, at::MemoryFormat) const {
    no_subclasses();
  }
  bool is_strides_like(const c10::TensorImpl*, at::MemoryFormat) const override { no_subclasses(); }
  bool is_non_overlapping_and_dense(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::Device device(const c10::TensorImpl*) const override { no_subclasses(); }
  int64_t dim(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::IntArrayRef strides(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::IntArrayRef sizes(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::Layout layout(const c10::TensorImpl*) const override { no_subclasses(); }
  int64_t numel(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::SymInt sym_numel(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl*) const override { no_subclasses(); }
  c10::SymInt sym_storage_offset(const c10::TensorImpl*) const override { no_subclasses(); }

  void trace_gpu_event_creation(c10::DeviceType, uintptr_t) const override {}
  void trace_gpu_event_deletion(c10::DeviceType, uintptr_t) const override {}
  void trace_gpu_event_record(c10::DeviceType, uintptr_t, uintptr_t) const override {}
  void trace_gpu_event_wait(c10::DeviceType, uintptr_t, uintptr_t) const override {}
  void trace_gpu_memory_allocation(c10::DeviceType, uintptr_t) const override {}
  void trace_gpu_memory_deallocation(c10::DeviceType, uintptr_t) const override {}
  void trace_gpu_stream_creation(c10::DeviceType, uintptr_t) const override {}
  void trace_gpu_device_synchronization(c10::DeviceType) const override {}
  void trace_gpu_stream_synchronization(c10::DeviceType, uintptr_t) const override {}
  void trace_gpu_event_synchronization(c10::DeviceType, uintptr_t) const override {}
  void reset_backward_hooks(const c10::TensorImpl*) const override {}
};

#pragma GCC diagnostic pop

}  // namespace

ForeignObject::~ForeignObject() = default;

c10::impl::PyInterpreter* interpreter() {
  static auto* const table = new Table;
  static auto* const interpreter = new c10::impl::PyInterpreter(table);
  return interpreter;
}

}  // namespace reprise::detail
