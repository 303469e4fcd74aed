#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Training inside a number of bytes, measured by the command 'reprise compare':

  budgets   gpt, resnet50, unet and bert at parts of the plain peak: peak and time, predicted and
            measured, beside every block checkpointed and selective recomputation
  scans     every workload at 20 budgets from 100 % of the plain peak down to 10 %

Each replaces its section of docs/benchmarks.md.
"""

import argparse
import sys

from classic import BenchError, Command, ROOT, ratio
from document import DOCUMENT, DocumentError, measured_on, mib, replace_section, table

SIZES = {"gpt": "--layers 6 --width 384 --heads 6 --batch 8 --context 256",
         "resnet50": "--batch 16 --size 96", "unet": "", "bert": ""}
SCANNED = {"digits": "", "blocks": "", "gpt": "", "bert": "", "resnet50": "--batch 4 --size 64",
           "unet": ""}

# Budgets in percent of the plain peak, and the time ratio that is aimed at.
ASKED = {"gpt": {80: 1.03, 60: 1.05, 50: 1.08, 40: 1.12, 30: 1.17, 25: None},
         "resnet50": {80: 1.06, 60: 1.12, 50: 1.22}, "unet": {70: 1.07, 50: 1.15}, "bert": {40: 1.15}}

# Short steps are measured more often: the machine's moods are as long as ever.
TIMES = {"unet": 5, "bert": 2}


def off(measured, predicted):
    return f"{100 * measured / predicted - 100:+.1f} %" if predicted else ""


def yes(condition):
    return "yes" if condition else "NO"


def same(row):
    return row["grads_bit_equal"] and row["buffers_bit_equal"] and row["rng_preserved"]


def with_commands(command, result, body):
    lines = "\n".join(f"    {line}" for line in command.lines)
    return f"{lines}\n\n{measured_on(result['libtorch'], result['threads'])}\n\n{body}"


def budgets(program, options):
    command = Command(program, SIZES, options.threads)
    parts = ["Peaks are above the base and count parameter gradients. *Aim*: the time ratio that was aimed at. "
             "*Off*: how far the measurement is from the plan's prediction."]
    for workload, asked in ASKED.items():
        others = "plain,checkpoint,tape:keep_matmuls," if workload == "gpt" else "plain,checkpoint,"
        strategies = others + ",".join(f"budget={share}%" for share in asked)
        result = command.compare(workload, "--strategies", strategies,
                                 f"--steps={options.steps * TIMES.get(workload, 1)}")
        rows = []
        for row in result["rows"]:
            share = row["strategy"].removeprefix("budget=").removesuffix("%")
            aim = asked.get(int(share)) if share.isdigit() else None
            rows.append([row["strategy"], mib(row["peak_bytes"]), f"{row['memory_ratio']:.3f}", ratio(row),
                         f"{aim:.2f}" if aim else "", off(row["peak_bytes"], row["predicted_peak_bytes"]),
                         off(row["step_ms_median"], row["predicted_step_ms"]), yes(same(row))])
        parts += [f"`{workload}`, plain step {result['rows'][0]['step_ms_median']:.0f} ms:",
                  table(["strategy", "peak", "peak ratio", "time ratio (95 %)", "aim", "peak off", "time off",
                         "same bits"], rows)]
    return with_commands(command, result, "\n\n".join(parts))


def scans(program, options):
    command = Command(program, SCANNED, options.threads)
    rows = []
    for workload in SCANNED:
        result = command.compare(workload, "--budget-scan", "10%..100%/20", f"--steps={options.steps}")
        plain = result["rows"][0]
        feasible = [row for row in result["rows"]
                    if row["strategy"].startswith("budget=") and not row.get("infeasible")]
        least = min(feasible, key=lambda row: row["budget_bytes"])
        over = sum(row["peak_bytes"] > row["budget_bytes"] for row in feasible)
        rows.append([f"`{workload}`", str(len(feasible)), str(over), yes(all(map(same, feasible))),
                     f"{100 * least['budget_bytes'] / plain['peak_bytes']:.0f} %", f"{least['time_ratio']:.2f}"])
    body = table(["workload", "feasible of 20", "above their budget", "gradients, buffers, draws the same",
                  "least of them", "time ratio there"], rows)
    return with_commands(command, result, body)


SECTIONS = {"budgets": budgets, "scans": scans}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="default: all")
    parser.add_argument("--reprise", default=str(ROOT / "build" / "reprise"), metavar="PATH",
                        help="the command (default: build/reprise)")
    parser.add_argument("--threads", type=int, default=2, help="default: 2")
    parser.add_argument("--steps", type=int, default=7, help="measured for each strategy (default: 7)")
    parser.add_argument("--write", default=DOCUMENT, metavar="FILE",
                        help="the document (default: docs/benchmarks.md)")
    options = parser.parse_args()
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"unknown section '{name}'; it is one of {', '.join(SECTIONS)}")
    try:
        for name in options.sections or SECTIONS:
            text = SECTIONS[name](options.reprise, options)
            print(f"{name}\n\n{text}\n")
            replace_section(options.write, name, text)
    except (BenchError, DocumentError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
