// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <string>

#include <reprise/error.h>
#include <reprise/offload.h>

namespace reprise {
namespace {

void check_not_negative(const char* what, int64_t number) {
  if (number >= 0) return;
  throw UsageError("OffloadOptions::" + std::string(what) + "(" + std::to_string(number) + ")",
                   "give 0 or more");
}

double megabytes(double bytes) { return bytes / (1 << 20); }

}  // namespace

OffloadOptions& OffloadOptions::min_bytes(int64_t bytes) {
  check_not_negative("min_bytes", bytes);
  min_bytes_ = bytes;
  return *this;
}

OffloadOptions& OffloadOptions::keep_last(int64_t values) {
  check_not_negative("keep_last", values);
  keep_last_ = values;
  return *this;
}

OffloadOptions& OffloadOptions::fraction(double part) {
  if (!(part >= 0 && part <= 1)) {
    throw UsageError("OffloadOptions::fraction(" + std::to_string(part) + ")",
                     "give a part of the bytes: 0 to 1");
  }
  fraction_ = part;
  return *this;
}

OffloadOptions& OffloadOptions::fetch_ahead(int64_t bytes) {
  check_not_negative("fetch_ahead", bytes);
  fetch_ahead_ = bytes;
  return *this;
}

std::ostream& operator<<(std::ostream& out, const OffloadSummary& summary) {
  out << summary.moved << " of " << summary.seen << " values moved, "
      << megabytes(static_cast<double>(summary.moved_bytes)) << " of "
      << megabytes(static_cast<double>(summary.seen_bytes)) << " MiB";
  const auto skipped = [&](int64_t count, const char* why) {
    if (count > 0) out << ", " << count << " " << why;
  };
  skipped(summary.failed, "of them failed");
  skipped(summary.skipped_small, "too small");
  skipped(summary.skipped_fraction, "beyond the fraction");
  skipped(summary.skipped_last, "kept as the last");
  skipped(summary.skipped_alive, "still in use");
  skipped(summary.skipped_full, "without room in the store");
  out << "; " << summary.fetched << " fetched, " << summary.returned << " before they had arrived";
  skipped(summary.recomputed, "recomputed instead");
  return out << "; waited " << summary.forward_wait_ms << " ms in the forward pass, "
             << summary.backward_wait_ms << " ms in the backward pass; sent at "
             << megabytes(summary.send_bandwidth) << " MiB/s, fetched at "
             << megabytes(summary.fetch_bandwidth) << " MiB/s\n";
}

}  // namespace reprise
