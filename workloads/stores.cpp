// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/stores.h"

#include <algorithm>
#include <memory>

#include <reprise/error.h>

#include "workloads/measured_step.h"

namespace reprise::workloads {
namespace {

bool goes_to_disk(const Strategy& strategy) {
  return strategy.store_kind && strategy.store_kind->place == StoreKind::Place::disk;
}

Store disk_store(const Strategy& strategy, const std::optional<std::string>& folder) {
  if (!folder) {
    throw UsageError("strategy '" + strategy.text + "': there is no folder to offload to",
                     "name one on a disk with --store DIR");
  }
  return store_in(*folder);
}

Store host_store(Workload& workload) {
  HostOptions options;
  if (!workload.device().is_cpu()) {
    options.allocate = [](int64_t bytes) -> std::shared_ptr<void> {
      const auto pool = std::make_shared<torch::Tensor>(
          torch::empty({bytes}, torch::TensorOptions().dtype(torch::kUInt8).pinned_memory(true)));
      return {pool, pool->mutable_data_ptr()};
    };
  }
  return HostStore(measure_plain(workload).peak_bytes, options);
}

Store formed(const Store& store, StoreKind::Form form) {
  if (form == StoreKind::Form::plain) return store;
  CompressedOptions options;
  options.lossy_bfloat16 = form == StoreKind::Form::lossy;
  return CompressedStore(store, options);
}

}  // namespace

Store store_in(const std::string& folder) {
  if (folder.empty()) throw UsageError("--store: the folder has no name", "name one on a disk");
  try {
    return DiskStore(folder);
  } catch (const StoreError& error) {
    throw UsageError("--store: nothing can be stored in '" + folder + "': " + error.found(),
                     "name a folder on a disk that one can write to");
  }
}

void check_store_folder(const std::vector<Strategy>& strategies,
                        const std::optional<std::string>& folder) {
  const auto first = std::find_if(strategies.begin(), strategies.end(), goes_to_disk);
  if (first != strategies.end()) {
    disk_store(*first, folder);
  } else if (folder) {
    throw UsageError("--store: no strategy offloads to a folder",
                     "leave it out, or name one such as offload:disk");
  }
}

void make_store(Strategy& strategy, const std::optional<std::string>& folder, Workload& workload) {
  if (!strategy.store_kind || strategy.store) return;
  const Store store = goes_to_disk(strategy) ? disk_store(strategy, folder) : host_store(workload);
  strategy.store = formed(store, strategy.store_kind->form);
}

}  // namespace reprise::workloads
