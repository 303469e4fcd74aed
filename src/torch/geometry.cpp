// SPDX-License-Identifier: BSD-3-Clause
#include "torch/geometry.h"

#include <sstream>

#include <ATen/ops/empty.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include "torch/below_modes.h"

namespace reprise::detail {

at::Tensor bytes_of(const c10::Storage& storage) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(storage.device());
  return at::empty({0}, options).set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

bool has_plain_storage(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.layout() == c10::kStrided && !tensor.is_nested() &&
         !tensor.is_quantized() && !tensor._is_zerotensor() &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

Geometry::Geometry(const at::Tensor& tensor)
    : sizes(tensor.sizes()),
      strides(tensor.strides()),
      offset(tensor.storage_offset()),
      dtype(tensor.scalar_type()),
      device(tensor.device()),
      conj(tensor.is_conj()),
      neg(tensor.is_neg()),
      wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number()),
      requires_grad(tensor.requires_grad()) {}

at::Tensor Geometry::on(const c10::Storage& storage) const {
  const BelowModes storage_is_there;  // also where a MetaScope would make one of its own
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  at::Tensor tensor = at::empty({0}, options).set_(storage, offset, sizes, strides);
  if (conj) tensor._set_conj(true);
  if (neg) tensor._set_neg(true);
  if (wrapped_number) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool Geometry::matches(const at::Tensor& tensor) const {
  return tensor.sizes() == c10::IntArrayRef(sizes) &&
         tensor.strides() == c10::IntArrayRef(strides) && tensor.storage_offset() == offset &&
         tensor.scalar_type() == dtype && tensor.device() == device && tensor.is_conj() == conj &&
         tensor.is_neg() == neg;
}

bool Geometry::covers(std::size_t bytes) const {
  // Dense if, by rising stride, each stride is the product of the sizes below it.
  c10::SmallVector<std::pair<int64_t, int64_t>, 5> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) axes.emplace_back(strides[i], sizes[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t count = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != count) return false;
    count *= size;
  }
  return offset == 0 && static_cast<std::size_t>(count) * c10::elementSize(dtype) == bytes;
}

std::string Geometry::str() const {
  std::ostringstream out;
  out << c10::toString(dtype) << c10::IntArrayRef(sizes) << " on " << device;
  return out.str();
}

c10::Storage clone_storage(const c10::Storage& storage) {
  return bytes_of(storage).clone().storage();
}

void copy_storage(const c10::Storage& from, const c10::Storage& to) {
  bytes_of(to).copy_(bytes_of(from));
}

c10::Storage empty_like_storage(std::size_t bytes, c10::Device device) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(device);
  return at::empty({static_cast<int64_t>(bytes)}, options).storage();
}

}  // namespace reprise::detail
