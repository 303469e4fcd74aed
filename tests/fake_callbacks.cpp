// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fake_callbacks.h"

#include <c10/util/Registry.h>

namespace c10 {

class FreeMemoryCallback {
 public:
  virtual ~FreeMemoryCallback() = default;
  virtual bool Execute() = 0;
};

C10_DECLARE_REGISTRY(FreeCudaMemoryCallbacksRegistry, FreeMemoryCallback);
C10_DEFINE_REGISTRY(FreeCudaMemoryCallbacksRegistry, FreeMemoryCallback)

}  // namespace c10

namespace reprise::testing {

bool call_free_memory_callbacks() {
  bool freed = false;
  auto& registry = *c10::FreeCudaMemoryCallbacksRegistry();
  for (const auto& name : registry.Keys()) freed |= registry.Create(name)->Execute();
  return freed;
}

}  // namespace reprise::testing
