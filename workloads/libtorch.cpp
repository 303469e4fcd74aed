// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/libtorch.h"

#include <cstdint>
#include <dlfcn.h>

#include <reprise/error.h>

#include <torch/version.h>

namespace reprise::workloads {
namespace {

// Part of LibTorch's stable C interface. Looked up by name, since a library too old to have it must
// still be reported as too old rather than fail to link.
void* version_symbol() { return ::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"); }

}  // namespace

std::string LibtorchVersion::text() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

LibtorchVersion built_against_libtorch() {
  return {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH};
}

LibtorchVersion loaded_libtorch() {
  void* symbol = version_symbol();
  if (symbol == nullptr) return {};
  const uint64_t version = reinterpret_cast<uint64_t (*)()>(symbol)();
  const auto byte = [version](int shift) { return static_cast<int>((version >> shift) & 0xff); };
  return {byte(56), byte(48), byte(40)};
}

std::string libtorch_path() {
  Dl_info info{};
  void* symbol = version_symbol();
  const bool found = symbol != nullptr && ::dladdr(symbol, &info) != 0 && info.dli_fname != nullptr;
  return found ? info.dli_fname : "unknown";
}

void require_libtorch(const LibtorchVersion& version) {
  if (version >= kOldestLibtorch) return;
  const std::string name = version == LibtorchVersion{} ? "unknown" : version.text();
  throw Error("LibTorch is too old: found " + name + " in " + libtorch_path() + ", needed " +
                  kOldestLibtorch.text() + " or later",
              "run scripts/setup.sh, or point LibTorch_ROOT at a newer LibTorch and build again");
}

}  // namespace reprise::workloads
