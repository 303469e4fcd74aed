// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/plan_report.h>
#include <reprise/report.h>

#include "base/text_table.h"
#include "report/markup.h"

// The largest batches as aligned text.

namespace reprise {

std::string to_table(const BatchReport& report, const TextStyle& style) {
  using detail::Align;
  detail::TextTable table({{"strategy", Align::left},
                           {"largest batch"},
                           {"in all"},
                           {"base", Align::right, 2},
                           {"peak above base", Align::right, 1},
                           {"samples/s"}});
  for (const BatchRow& row : report.rows) {
    table.add_row(
        {row.strategy, row.samples > 0 ? detail::format_count(row.samples) : "none",
         format_bytes(row.base_bytes + row.peak_bytes), format_bytes(row.base_bytes),
         format_bytes(row.peak_bytes),
         row.samples_per_second ? detail::fixed_number(*row.samples_per_second, 1) : "-"});
  }
  std::string text = report.workload + " on " + report.device + ", LibTorch " + report.libtorch +
                     ", " + std::to_string(report.threads) +
                     (report.threads == 1 ? " thread" : " threads") +
                     "\nthe largest batch within " + format_bytes(report.limit_bytes) +
                     " in all, by shapes\n\n" + table.str(style);
  if (report.measured_at > 0) {
    text += "\nsamples/s as measured with a batch of " + detail::format_count(report.measured_at) +
            "; the budget's are plain's, over what its plan adds\n";
  } else {
    text += "\nsamples/s by operator rates\n";
  }
  return text;
}

}  // namespace reprise
