// SPDX-License-Identifier: BSD-3-Clause
#include "offloading.h"

#include "program.h"
#include "tests/copy_store.h"
#include "tests/faulty_store.h"

namespace reprise::fuzz {
namespace {

tests::FaultyStoreRates rates(bool faults) {
  if (!faults) return {};
  tests::FaultyStoreRates rates;
  rates.sends = 80;
  rates.fetches = 100;
  rates.throwing_sends = 40;
  rates.throwing_fetches = 60;
  rates.full = 60;
  return rates;
}

}  // namespace

Offloading::Offloading(uint64_t seed, bool faults)
    : seed_(seed),
      copies_(std::make_shared<tests::CopyBackend>(mix(seed, 1), /*late=*/seed % 2 ? 300 : 0)),
      store_(
          tests::faulty_store(Store(copies_), static_cast<unsigned>(mix(seed, 2)), rates(faults))),
      order_(std::make_shared<detail::FetchOrder>()) {}

// The same for all tapes and runs of a program: what one learns of the order, the others use.
std::shared_ptr<detail::Offloads> Offloading::next_offloads() {
  OffloadOptions options;
  options.min_bytes(mix(seed_, 3) % 3 == 0 ? 64 : 0);
  options.keep_last(static_cast<int64_t>(mix(seed_, 4) % 3));
  options.fraction(mix(seed_, 5) % 4 == 0 ? 0.5 : 1);
  options.fetch_ahead(mix(seed_, 6) % 3 == 0 ? 0 : mix(seed_, 6) % 3 == 1 ? 200 : int64_t{1} << 40);
  options.on_failure(mix(seed_, 7) % 2 ? StoreFailure::recompute : StoreFailure::error);
  return std::make_shared<detail::Offloads>(detail::Destination{store_, options}, order_);
}

std::string Offloading::complaint() const {
  const StoreStats stats = store_.stats();
  if (stats.blocks_held != 0) return std::to_string(stats.blocks_held) + " blocks are still held";
  if (copies_->written_to() != 0) return "memory was written to while it was being sent";
  return {};
}

bool is_injected(const std::string& error) {
  return error.find("an injected one") != std::string::npos;
}

}  // namespace reprise::fuzz
