// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include <reprise/module_paths.h>

#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

namespace reprise {

struct ModulePaths::Entries {
  struct Entry {
    using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
    std::string module;
    WeakTensor tensor;
    bool parameter;  // not a buffer
  };
  std::vector<Entry> list;
};

}  // namespace reprise
