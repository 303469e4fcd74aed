// SPDX-License-Identifier: BSD-3-Clause
#include "meter/process_allocator.h"

#include <cstdlib>
#include <string_view>

#include <c10/core/CPUAllocator.h>

namespace reprise::detail {
namespace {

// Runs before main(), so that parameters made in static objects of the program count too. In a
// static build this file is linked because Meter asks for process_allocator().
const bool installed_at_load = [] {
  const char* setting = std::getenv("REPRISE_METER");
  if (setting != nullptr && std::string_view(setting) == "0") return false;
  CountingAllocator& allocator = process_allocator();
  CountingAllocator::set_foreign_deleter(allocator.base().raw_deleter());
  c10::SetCPUAllocator(&allocator, /*priority=*/0);
  return true;
}();

}  // namespace

CountingAllocator& process_allocator() {
  // Leaked on purpose: tensors in static objects are freed after main(), in any order.
  static auto* const allocator = new CountingAllocator(*c10::GetCPUAllocator());
  return *allocator;
}

bool process_allocator_in_place() {
  return installed_at_load && c10::GetCPUAllocator() == &process_allocator();
}

}  // namespace reprise::detail
