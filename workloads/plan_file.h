// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <reprise/plan.h>
#include <reprise/trace_step.h>

#include "workloads/workload.h"

// Plans as files: the plan, the trace that it was made for, and what that is a trace of.

namespace reprise::workloads {

struct PlanFile {
  std::string setting;  ///< Workload::model_setting()
  int64_t parameters = 0;
  int64_t batch = 0;
  std::string libtorch;
  std::string device;
  int64_t threads = 0;
  int64_t base_bytes = 0;
  StepTrace trace;
  Plan plan;
};

PlanFile plan_file_of(Workload& workload, const TracedStep& step, const Plan& plan);

/// JSON with a newline at the end; docs/command.md describes it.
std::string to_json(const PlanFile& file);

/// Throws UsageError, in one line that names the file, when it cannot be read, is cut off or
/// something else, is of another version, or when check_plan() finds that the plan is not what it
/// says, such as above its budget.
PlanFile read_plan_file(const std::string& path);

/// Throws UsageError, naming both, where the file was made for another model, other options,
/// another batch, LibTorch or device. Other threads make a warning, which is returned.
std::optional<std::string> require_fit(const PlanFile& file, Workload& workload);

/// Throws UsageError when the operators of a step are not those of the file's trace: they, or the
/// sizes of what they make, are other ones.
void require_same_operators(const PlanFile& file, const StepTrace& step);

}  // namespace reprise::workloads
