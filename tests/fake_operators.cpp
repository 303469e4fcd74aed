// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fake_operators.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>

#include "tests/fake_accelerator.h"

namespace reprise::testing {
namespace {

using at::Tensor;
using c10::IValue;
using c10::Storage;
using torch::jit::Stack;

constexpr c10::DispatchKeySet kFake(c10::DispatchKey::PrivateUse1);
constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

// What is registered, so that an allocator set over the accelerator's own is asked.
c10::Allocator* memory() { return c10::GetAllocator(c10::DeviceType::PrivateUse1); }

Tensor tensor_over(Storage storage, c10::DispatchKeySet keys, const Tensor& like) {
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) made._set_conj(true);
  if (like.is_neg()) made._set_neg(true);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return made;
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

// One call's tensors on both sides. Arguments become CPU tensors over the same memory, those that
// share a storage share one there too, so that the CPU's kernels write and alias what they should.
class Borrowed {
 public:
  Tensor to_cpu(const Tensor& tensor);
  IValue to_cpu(const IValue& value);
  /// After the call and before to_device(): what it did to its arguments but for their contents.
  void write_back();
  Tensor to_device(const Tensor& tensor);
  IValue to_device(const IValue& value);

  at::Generator generator;  // the one among the arguments, if any

 private:
  template <class T>
  struct Pair {
    T device, cpu;
  };
  Storage to_cpu(const Storage& storage);
  Storage to_device(const Storage& storage);

  std::vector<Pair<Storage>> storages_;
  std::vector<Pair<Tensor>> arguments_;  // those on the CPU: twice the same
};

Storage Borrowed::to_cpu(const Storage& storage) {
  for (const auto& pair : storages_) {
    if (pair.device.is_alias_of(storage)) return pair.cpu;
  }
  // Not const access, which would not copy what is to be copied at a write.
  c10::DataPtr data(storage.mutable_data(), c10::kCPU);
  Storage cpu(Storage::use_byte_size_t(), storage.nbytes(), std::move(data),
              c10::GetAllocator(c10::kCPU), /*resizable=*/true);
  storages_.push_back({storage, cpu});
  return cpu;
}

Storage Borrowed::to_device(const Storage& storage) {
  for (const auto& pair : storages_) {
    if (pair.cpu.is_alias_of(storage)) return pair.device;
  }
  Storage device(Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, fake_device()), memory(),
                 /*resizable=*/true);
  move_to_new_memory(device, storage.data(), storage.nbytes(), storage.nbytes());
  storages_.push_back({device, storage});
  return device;
}

Tensor Borrowed::to_cpu(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  for (const auto& pair : arguments_) {
    if (pair.device.is_same(tensor)) return pair.cpu;
  }
  const bool on_cpu = !tensor.is_privateuseone();
  arguments_.push_back(
      {tensor, on_cpu ? tensor : tensor_over(to_cpu(tensor.storage()), kCpu, tensor)});
  return arguments_.back().cpu;
}

Tensor Borrowed::to_device(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  for (const auto& pair : arguments_) {
    if (pair.cpu.is_same(tensor)) return pair.device;
  }
  return tensor_over(to_device(tensor.storage()), kFake, tensor);
}

void Borrowed::write_back() {
  for (const auto& pair : storages_) {
    if (pair.cpu.data() == pair.device.data()) continue;  // else resized
    move_to_new_memory(pair.device, pair.cpu.data(), pair.cpu.nbytes(), pair.cpu.nbytes());
  }
  for (const auto& [device, cpu] : arguments_) {
    if (device.is_same(cpu)) continue;
    const Storage storage = to_device(cpu.storage());
    if (storage.is_alias_of(device.storage()) && same_view(device, cpu)) continue;
    auto* impl = device.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(storage);
    impl->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
  }
}

template <class List, class Convert>
List convert_each(const List& list, const Convert& convert) {
  List made;
  for (const auto& value : list) made.push_back(convert(value));
  return made;
}

IValue Borrowed::to_cpu(const IValue& value) {
  const auto convert = [this](const Tensor& tensor) { return to_cpu(tensor); };
  if (value.isTensor()) return to_cpu(value.toTensor());
  if (value.isStorage()) return to_cpu(value.toStorage());
  if (value.isTensorList()) return convert_each(value.toTensorList(), convert);
  if (value.isOptionalTensorList()) {
    return convert_each(value.toOptionalTensorList(), [&](const std::optional<Tensor>& tensor) {
      return tensor ? std::optional(to_cpu(*tensor)) : std::nullopt;
    });
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(c10::kCPU);
  if (value.isGenerator()) {
    generator = value.toGenerator();
    TORCH_CHECK(generator.device() == fake_device(), "expected a generator of ", fake_device(),
                ", not of ", generator.device());
    return {};
  }
  return value;
}

IValue Borrowed::to_device(const IValue& value) {
  const auto convert = [this](const Tensor& tensor) { return to_device(tensor); };
  if (value.isTensor()) return to_device(value.toTensor());
  if (value.isStorage()) return to_device(value.toStorage());
  if (value.isTensorList()) return convert_each(value.toTensorList(), convert);
  return value;
}

// Lets the CPU's default generator draw for the accelerator's, and stand where it stood after.
class Drawing {
 public:
  explicit Drawing(at::Generator generator)
      : lock_(mutex()), generator_(std::move(generator)), kept_(state(cpu_)) {
    set_state(cpu_, state(generator_));
  }
  ~Drawing() {
    set_state(generator_, state(cpu_));
    set_state(cpu_, kept_);
  }
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static Tensor state(at::Generator& generator) {
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
  }
  static void set_state(at::Generator& generator, const Tensor& state) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }

  std::lock_guard<std::mutex> lock_;
  at::Generator cpu_ = at::detail::getDefaultCPUGenerator();
  at::Generator generator_;
  Tensor kept_;
};

// The CPU's kernels call operators in their turn: as the dispatcher would below autograd.
class BelowModes {
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                            c10::autocast_dispatch_keyset | c10::python_ks};
};

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  Borrowed borrowed;
  for (IValue& value : std::span(*stack).last(op.schema().arguments().size())) {
    value = borrowed.to_cpu(value);
  }
  {
    const BelowModes below;
    std::optional<Drawing> drawing;
    if (borrowed.generator.defined()) {
      drawing.emplace(borrowed.generator);
    } else if (op.hasTag(at::Tag::nondeterministic_seeded)) {
      drawing.emplace(at::globalContext().defaultGenerator(fake_device()));
    }
    op.redispatchBoxed(kCpu, stack);
  }
  borrowed.write_back();
  for (IValue& value : std::span(*stack).last(op.schema().returns().size())) {
    value = borrowed.to_device(value);
  }
}

c10::OperatorHandle named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// LibTorch sends convolutions of unknown devices to operators of their own.
void convolution(const c10::OperatorHandle&, Stack* stack) {
  run_on_cpu(named("aten::convolution"), stack);
}

// As the CPU's, but for the bias's sizes, which it asks for.
void convolution_backward(const c10::OperatorHandle& op, Stack* stack) {
  const auto arguments = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
  const Tensor& gradient = arguments->toTensor();
  const bool with_bias = stack->back().toBoolList().get(2);
  stack->insert(arguments + 3,
                with_bias ? IValue(c10::List<int64_t>({gradient.size(1)})) : IValue());
  run_on_cpu(named("aten::convolution_backward"), stack);
}

Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, memory(), kFake, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, memory(), kFake,
                                           c10::dtype_or_default(dtype));
}

// Between the accelerator and the CPU, both ways.
Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  const BelowModes below;
  Borrowed borrowed;
  borrowed.to_cpu(to).copy_(borrowed.to_cpu(from));
  return to;
}

// What lets module->to(device) change a parameter in place.
bool has_compatible_type(const Tensor& tensor, const Tensor& from) {
  const auto dense = [](const Tensor& t) { return t.key_set().has(c10::DispatchKey::Dense); };
  return dense(tensor) && dense(from);
}

// Attention by the kernel that the CPU takes for these arguments.
int64_t attention_kernel(const Tensor& query, const Tensor& key, const Tensor& value,
                         const std::optional<Tensor>& mask, double dropout, bool causal,
                         std::optional<double> scale, bool grouped) {
  const BelowModes below;
  return at::_fused_sdp_choice(query, key, value, mask, dropout, causal, scale, grouped);
}

}  // namespace

torch::Library& kept_library(const char* name_space, c10::DispatchKey key) {
  static auto& all = *new std::list<torch::Library>;
  return all.emplace_back(torch::Library::IMPL, name_space, key, __FILE__, __LINE__);
}

void move_to_new_memory(const Storage& storage, const void* from, std::size_t count,
                        std::size_t bytes) {
  c10::DataPtr data = storage.allocator()->allocate(bytes);
  if (const std::size_t n = std::min(count, bytes); n > 0) std::memcpy(data.get(), from, n);
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

void register_fake_operators() {
  constexpr auto kKey = c10::DispatchKey::PrivateUse1;
  kept_library("_", kKey).fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  auto& own = kept_library("aten", kKey);
  // The CPU's own kernels also where LibTorch would compose the operator of others.
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CPU)) {
    const c10::OperatorHandle op = dispatcher.findOp(name).value();
    if (name.getNamespace() == "aten" &&
        (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))) {
      own.impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
    }
  }
  own.impl("empty.memory_format", &empty);
  own.impl("empty_strided", &empty_strided);
  own.impl("_copy_from", &copy_from);
  // copy_() resolves lazy conjugates and signs itself: without this, by itself again, endlessly.
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    kept_library("aten", key).impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
  own.impl("_has_compatible_shallow_copy_type", &has_compatible_type);
  own.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  own.impl("convolution_backward_overrideable",
           torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&attention_kernel);
}

}  // namespace reprise::testing
