// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <reprise/html_report.h>

#include "options.h"

// Reports, pictures and snapshots as files: --report, --timeline, --snapshot.

namespace reprise::command {

/// Keeps the command line for the reports of this process.
void remember_command_line(int argc, const char* const* argv);

void add_report_options(Options& options);

/// For the start of a run: throws UsageError for a file that cannot be written or has a wrong
/// ending, and for what cannot be recorded on the device.
void check_report_files(const Options& options);

/// For a run without memory over time: throws UsageError when --timeline or --snapshot is given, or
/// a picture is asked of a profile, which would show it. `reason` begins the message.
void refuse_recordings(const Options& options, const std::string& reason);

/// Writes what the options ask for. `report` brings the results; title, command, machine and, where
/// it brings none, the memory over time are added here: a step of each strategy of the comparison
/// or of the training's is recorded when one of the files shows it.
void write_reports(const Options& options, workloads::Workload& workload, Report report);

}  // namespace reprise::command
