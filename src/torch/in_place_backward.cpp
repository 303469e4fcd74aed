// SPDX-License-Identifier: BSD-3-Clause
#include "torch/in_place_backward.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/library.h>

#include "torch/geometry.h"

namespace reprise::detail {
namespace {

namespace nodes = torch::autograd::generated;
namespace ops = at::_ops;

std::atomic<int64_t> switches{0};
std::atomic<bool> others_are_there{false};  // as of the first switch: asking takes a while

/// The only input of the node that runs on this thread, if the node has one use for it.
thread_local const c10::TensorImpl* own_gradient = nullptr;

// What the formulas of these nodes do with the gradient is one call of the operator.
bool runs_softmax_backward() {
  const auto node = torch::autograd::get_current_node();
  return dynamic_cast<const nodes::LogSoftmaxBackward0*>(node.get()) != nullptr ||
         dynamic_cast<const nodes::SoftmaxBackward0*>(node.get()) != nullptr;
}

// A node is shown when its hooks have run. They might call the operator too, with tensors that they
// alone hold and will look at again: hence the input's identity.
std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  const auto inputs = call.inputs();
  const bool has_one = inputs.size() == 1 && inputs[0].isTensor();
  own_gradient =
      has_one && runs_softmax_backward() ? inputs[0].toTensor().unsafeGetTensorImpl() : nullptr;
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) { own_gradient = nullptr; }

bool has_forward_gradient(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr && tensor._fw_grad(0).defined();
}

// The node's list has the one reference to the tensor, and the tensor that to the storage.
bool is_held_once(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return tensor.use_count() == 1 && tensor.weak_use_count() == 1 && storage.use_count() == 1 &&
         storage.getWeakStorageImpl().weak_use_count() == 2;  // the others, as one, and this
}

bool is_all_of_a_block(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         storage.nbytes() == tensor.nbytes() &&
         storage.data_ptr().get_deleter() == c10::GetCPUAllocator()->raw_deleter();
}

// `below`: the keys of what is called next. The CPU's kernel is, unless a mode, a subclass, a lazy
// negation or the like comes first.
bool may_be_taken(c10::DispatchKeySet below, const at::Tensor& gradient, const at::Tensor& output,
                  at::ScalarType input_dtype) {
  return below.highestPriorityTypeId() == c10::DispatchKey::CPU && !at::GradMode::is_enabled() &&
         has_plain_storage(gradient) && !gradient.requires_grad() &&
         gradient.sizes() == output.sizes() && gradient.scalar_type() == output.scalar_type() &&
         gradient.scalar_type() == input_dtype && is_held_once(gradient) &&
         is_all_of_a_block(gradient) && !has_forward_gradient(gradient) &&
         !has_forward_gradient(output);
}

// Stands between autograd and the backend, where no operator that returns a new tensor has a kernel
// of its own: nothing is overridden, and what others override is called. Nobody looks at the
// gradient again, so its memory may as well be that of the result.
template <class Op, class OutOp>
at::Tensor softmax_backward(c10::DispatchKeySet keys, const at::Tensor& gradient,
                            const at::Tensor& output, int64_t dim, at::ScalarType input_dtype) {
  const c10::DispatchKeySet below = keys & c10::after_ADInplaceOrView_keyset;
  if (own_gradient != gradient.unsafeGetTensorImpl() ||
      !may_be_taken(below, gradient, output, input_dtype)) {
    return Op::redispatch(below, gradient, output, dim, input_dtype);
  }
  own_gradient = nullptr;
  at::Tensor result(gradient.unsafeGetTensorImpl()->shallow_copy_and_detach(
      /*version_counter=*/0, /*allow_tensor_metadata_change=*/true));
  return OutOp::redispatch(below, gradient, output, dim, input_dtype, result);
}

constexpr std::array kOperators{"aten::_log_softmax_backward_data", "aten::_softmax_backward_data"};

c10::OperatorHandle find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// Another library's kernel need not be one that can be replaced by LibTorch's in-place one.
bool others_have_kernels() {
  for (const char* name : kOperators) {
    const std::string kernels = find_operator(name).dumpState();
    if (kernels.find("CPU (inactive)") != std::string::npos ||
        kernels.find("ADInplaceOrView (inactive)") != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool install() {
  for (const char* name : kOperators) {
    if (find_operator(name).hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView)) {
      return false;
    }
  }
  // Leaked on purpose: operators are called for as long as the process lives.
  static auto& library = *new torch::Library(torch::Library::IMPL, "aten",
                                             c10::DispatchKey::ADInplaceOrView, __FILE__, __LINE__);
  library.impl(
      kOperators[0],
      TORCH_FN((
          softmax_backward<ops::_log_softmax_backward_data, ops::_log_softmax_backward_data_out>)));
  library.impl(
      kOperators[1],
      TORCH_FN((softmax_backward<ops::_softmax_backward_data, ops::_softmax_backward_data_out>)));
  return true;
}

}  // namespace

InPlaceBackward::InPlaceBackward() {
  [[maybe_unused]] static const bool installed = install();
  if (switches == 0) others_are_there = others_have_kernels();
  ++switches;
}

InPlaceBackward::~InPlaceBackward() { --switches; }

InPlacePass::InPlacePass() {
  if (switches == 0 || others_are_there) return;
  observer_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                             .scopes({at::RecordScope::BACKWARD_FUNCTION})
                                             .needsInputs(true));
}

InPlacePass::~InPlacePass() {
  if (observer_ != at::INVALID_CALLBACK_HANDLE) at::removeCallback(observer_);
}

}  // namespace reprise::detail
