// SPDX-License-Identifier: BSD-3-Clause
#include "torch/out_of_memory.h"

#include <dlfcn.h>
#include <memory>
#include <string>

#include <c10/util/Registry.h>

// As c10/cuda/CUDACachingAllocator.h has it, which needs CUDA's own headers.
namespace c10 {

class FreeMemoryCallback {
 public:
  virtual ~FreeMemoryCallback() = default;
  virtual bool Execute() = 0;
};

}  // namespace c10

namespace reprise::detail {
namespace {

using Callbacks = c10::Registry<std::string, std::unique_ptr<c10::FreeMemoryCallback>>;

// c10::FreeCudaMemoryCallbacksRegistry(), of a library that may not be there.
constexpr const char* kCallbacks = "_ZN3c1031FreeCudaMemoryCallbacksRegistryB5cxx11Ev";

bool (*the_function)() noexcept = nullptr;

class Callback final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override { return the_function(); }
};

}  // namespace

bool when_out_of_memory(bool (*frees_some)() noexcept) {
  static const bool registered = [&] {
    void* symbol = dlsym(RTLD_DEFAULT, kCallbacks);
    if (symbol == nullptr) return false;
    the_function = frees_some;
    Callbacks& callbacks = *reinterpret_cast<Callbacks* (*)()>(symbol)();
    callbacks.Register("reprise",
                       [] { return std::unique_ptr<c10::FreeMemoryCallback>(new Callback); });
    return true;
  }();
  return registered;
}

}  // namespace reprise::detail
