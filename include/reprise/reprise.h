// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// All of Reprise, in the order of the flow: capture, decide, execute, measure, report.

#include <reprise/accumulate.h>
#include <reprise/amp.h>
#include <reprise/budget.h>
#include <reprise/budget_infeasible.h>
#include <reprise/checkpoint.h>
#include <reprise/checkpoint_options.h>
#include <reprise/checkpointed.h>
#include <reprise/equality.h>
#include <reprise/error.h>
#include <reprise/execution_group.h>
#include <reprise/export.h>
#include <reprise/hooks.h>
#include <reprise/html_report.h>
#include <reprise/layer_class.h>
#include <reprise/ledger.h>
#include <reprise/meta_scope.h>
#include <reprise/meter.h>
#include <reprise/module_paths.h>
#include <reprise/monitor.h>
#include <reprise/nested.h>
#include <reprise/offload.h>
#include <reprise/plan.h>
#include <reprise/plan_report.h>
#include <reprise/policy.h>
#include <reprise/profile.h>
#include <reprise/profile_report.h>
#include <reprise/region_report.h>
#include <reprise/report.h>
#include <reprise/resume.h>
#include <reprise/scope.h>
#include <reprise/segments.h>
#include <reprise/sequential.h>
#include <reprise/snapshot.h>
#include <reprise/stats.h>
#include <reprise/store.h>
#include <reprise/suggest.h>
#include <reprise/text_style.h>
#include <reprise/trace_step.h>
#include <reprise/version.h>
