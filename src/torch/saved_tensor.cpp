// SPDX-License-Identifier: BSD-3-Clause
#include "torch/saved_tensor.h"

#include <sstream>

#include <ATen/SavedTensorHooks.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace reprise::detail {
namespace {

// Without hooks a SavedVariable holds the tensor object itself. When the region's function then
// writes to it in place, the object's own node becomes one that holds the region: a cycle. With
// these it holds the data and the node of now.
class KeepDetached final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override { data_ = tensor.detach(); }
  at::Tensor call_unpack_hook() override { return data_; }

 private:
  at::Tensor data_;
};

/// Takes the hooks off this thread while it lives.
class NoHooks {
 public:
  NoHooks() : before_(at::SavedTensorDefaultHooks::get_tls_state()) {
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  ~NoHooks() { at::SavedTensorDefaultHooks::set_tls_state(before_); }
  NoHooks(const NoHooks&) = delete;
  NoHooks& operator=(const NoHooks&) = delete;

 private:
  const at::impl::SavedTensorDefaultHooksTLS before_;
};

}  // namespace

SavedTensor::SavedTensor(const at::Tensor& tensor, bool through_hooks) {
  if (tensor.defined() && !tensor.is_inference()) {
    std::optional<NoHooks> no_hooks;
    if (!through_hooks) no_hooks.emplace();
    saved_ = std::make_unique<torch::autograd::SavedVariable>(tensor, /*is_output=*/false);
    if (!saved_->has_hooks()) {
      saved_->register_hooks(std::make_unique<KeepDetached>());
      stamp_.emplace(tensor);
    }
  } else {
    // Made in inference mode, it counts no versions: only a copy stays what it was.
    plain_ = tensor.defined() ? tensor.clone() : tensor;
  }
}

SavedTensor::~SavedTensor() = default;
SavedTensor::SavedTensor(SavedTensor&&) noexcept = default;

at::Tensor SavedTensor::unpack() const {
  if (stamp_) stamp_->check();
  return saved_ ? saved_->unpack() : plain_;
}

VersionStamp::VersionStamp(const at::Tensor& tensor)
    : counter_(tensor.unsafeGetTensorImpl()->version_counter()),
      version_(counter_.current_version()) {}

void VersionStamp::check() const {
  TORCH_CHECK(counter_.current_version() == version_,
              "one of the variables needed for gradient computation has been modified by an "
              "inplace operation after it was saved for the backward pass: it is at version ",
              counter_.current_version(), "; expected version ", version_,
              " instead.\nhint: change it after the backward pass, or out of place");
}

SavedMetadata::SavedMetadata(const at::Tensor& tensor)
    : dtype(tensor.scalar_type()), device(tensor.device()), maker(nullptr) {
  if (!tensor.is_nested()) sizes = tensor.sizes().vec();
  if (const auto node = tensor.grad_fn()) maker = &typeid(*node);
}

int64_t SavedMetadata::bytes() const {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : sizes) bytes *= size;
  return bytes;
}

std::string SavedMetadata::str() const {
  std::ostringstream out;
  out << c10::toString(dtype) << '[';
  for (std::size_t i = 0; i < sizes.size(); ++i) out << (i ? ", " : "") << sizes[i];
  out << "] on " << device;
  if (maker) {
    const std::string type = c10::demangle(maker->name());
    out << " from " << type.substr(type.rfind(':') + 1);
  }
  return out.str();
}

}  // namespace reprise::detail
