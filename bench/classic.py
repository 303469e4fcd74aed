#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the classic trade, memory against time, measured by the command 'reprise compare':

  selective   resnet50 and bert: everything kept, every layer checkpointed, layers chosen by their
              measured class; each trains a fixed number of steps
  segments    32 layers in 8 segments against the rule that each region replays once, and the
              granularity curve
  parts       gpt: whole layers, attention only, feed-forward only, both by themselves

Each replaces its section of docs/benchmarks.md. A workload that the build does not have is left out.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from document import DOCUMENT, DocumentError, measured_on, mib, replace_section, table

ROOT = Path(__file__).resolve().parents[1]
SELECTIVE = "plain,checkpoint,tape:classes,tape:keep_matmuls"
SEGMENTED = "plain,sequential:8,segments:1,segments:4,segments:32"
PARTED = "plain,checkpoint,attention,ffn,parts"

# Sizes that 2 cores measure in minutes, and sizes that only show that it works.
FULL = {"resnet50": "--batch 8 --steps 6 --train 8", "bert": "--steps 8 --train 20",
        "blocks": "--layers 32 --batch 1024 --steps 8", "gpt": "--context 256 --steps 8"}
QUICK = {"resnet50": "--batch 2 --steps 1 --train 1",
         "bert": "--width 32 --heads 2 --context 16 --batch 2 --steps 1 --train 1",
         "blocks": "--layers 32 --width 16 --batch 8 --steps 2",
         "gpt": "--width 32 --heads 2 --context 16 --batch 2 --steps 1"}


class BenchError(Exception):
    """The command failed, and its own words."""


class Command:
    def __init__(self, program, sizes, threads):
        self.program, self.sizes, self.threads = program, sizes, threads
        self.lines = []  # as a reader would type them

    def workloads(self):
        """The names that the command knows: it lists them where it is given none."""
        text = subprocess.run([self.program, "compare"], capture_output=True, text=True).stderr
        _, found, names = text.partition("workloads: ")
        if not found:
            raise BenchError(f"{self.program} names no workloads: {text.strip()}")
        return [name.strip() for name in names.splitlines()[0].split(",")]

    def compare(self, workload, *arguments):
        words = ["compare", workload, *self.sizes[workload].split(), *arguments,
                 f"--threads={self.threads}"]
        self.lines.append("reprise " + shlex.join(words))
        print(self.lines[-1], file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            done = subprocess.run([self.program, *words, f"--json={result}"], capture_output=True,
                                  text=True)
            if done.returncode != 0:
                raise BenchError(f"{self.lines[-1]}: exit code {done.returncode}\n{done.stderr.strip()}")
            return json.loads(result.read_text())


def ratio(row):
    low, high = row["time_ratio_low"], row["time_ratio_high"]
    interval = f" ({low:.3f} to {high:.3f})" if low is not None else ""
    return f"{row['time_ratio']:.3f}{interval}"


def step_cells(row):
    return [row["strategy"], mib(row["peak_bytes"]), f"{row['memory_ratio']:.3f}",
            f"{row['step_ms_median']:.1f} ms", ratio(row)]


STEP_HEAD = ["strategy", "peak", "peak ratio", "step", "time ratio (95 %)"]


def quality(result, row):
    value = row["training"]["quality"]
    if value is None:
        return "-"
    if result["quality_unit"] == "%":
        return f"{100 * value:.2f} %"
    return " ".join(filter(None, [f"{value:.4g}", result["quality_unit"]]))


def trained_table(result):
    head = [*STEP_HEAD, f"{result['train_steps']} training steps", "final loss",
            result["quality_name"] or "quality", "weights"]
    return table(head, [
        [*step_cells(row), f"{row['training']['seconds']:.1f} s", f"{row['training']['loss']:.6g}",
         quality(result, row),
         "identical" if row["training"]["weights_bit_equal"] else "differ"]
        for row in result["rows"]])


def operators_of_a_layer(rows):
    """(all, left out): a layer's operators, and how many of them the end of a region need not run
    again. Two counts give both: 32 regions of one layer, and one region of 32."""
    single, whole = rows["segments:1"]["recomputed_ops"], rows["segments:32"]["recomputed_ops"]
    left_out, rest = divmod(whole - single, 31)
    operators, more = divmod(single + 32 * left_out, 32)
    if rest or more:
        raise BenchError(f"{single} and {whole} operators do not come from 32 equal layers")
    return operators, left_out


def rule_table(result):
    """Against the rule that each region replays once: its operators, and the time they took."""
    rows = {row["strategy"]: row for row in result["rows"]}
    operators, left_out = operators_of_a_layer(rows)
    plain = rows["plain"]["step_ms_median"]
    # (strategy, regions that replay, layers of each)
    cells = []
    for strategy, regions, layers in (("segments:4", 8, 4), ("sequential:8", 7, 4)):
        row = rows[strategy]
        cells.append([strategy, str(regions), str(regions * layers * operators),
                      str(regions * (layers * operators - left_out)), str(row["recomputed_ops"]),
                      f"{1 + row['recomputed_ms'] / plain:.3f}", ratio(row), mib(row["peak_bytes"]),
                      f"{row['memory_ratio']:.3f}"])
    head = ["strategy", "regions that replay", "operators by the rule", "less what no one needs",
            "operators run again", "time ratio by the rule", "time ratio (95 %)", "peak", "peak ratio"]
    return table(head, cells), operators, left_out


def scan_table(result):
    head = ["segments", "boundaries", "longest", "operators run again", *STEP_HEAD[1:]]
    return table(head, [
        [str(row["segments"]), str(row["segments"] - 1), str(row["longest_segment_layers"]),
         str(row["recomputed_ops"]), *step_cells(row)[1:]]
        for row in result["rows"] if row["segments"]])


def with_commands(command, result, body):
    lines = "\n".join("    " + line for line in command.lines)
    command.lines.clear()
    return f"{measured_on(result['libtorch'], result['threads'])}\n\n{lines}\n\n{body}"


def selective(command, there):
    sections, result = [], None
    for workload in ("resnet50", "bert"):
        if workload in there:
            result = command.compare(workload, "--strategies", SELECTIVE)
            sections.append(f"{workload}, {result['parameters']} parameters:\n\n{trained_table(result)}")
    return with_commands(command, result, "\n\n".join(sections)) if sections else None


def segments(command, there):
    if "blocks" not in there:
        return None
    result = command.compare("blocks", "--strategies", SEGMENTED)
    against_rule, operators, left_out = rule_table(result)
    scan = command.compare("blocks", "--segment-scan")
    body = f"""A layer runs {operators} operators; at the end of a region {left_out} of them need not run again.
`sequential:8` leaves its last segment plain. The rule's time is plain's and that of the replays.

{against_rule}

All numbers of segments:

{scan_table(scan)}"""
    return with_commands(command, result, body)


def parts(command, there):
    if "gpt" not in there:
        return None
    result = command.compare("gpt", "--strategies", PARTED)
    rows = [[*step_cells(row), str(row["recomputed_ops"])] for row in result["rows"]]
    return with_commands(command, result, table([*STEP_HEAD, "operators run again"], rows))


SECTIONS = {"selective": selective, "segments": segments, "parts": parts}


def read_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION",
                        help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--reprise", default=ROOT / "build" / "reprise", metavar="PATH",
                        help="the command (default: build/reprise)")
    parser.add_argument("--threads", type=int, default=2, help="default: 2")
    parser.add_argument("--quick", action="store_true",
                        help="tiny sizes, printed only: shows that it works")
    parser.add_argument("--write", default=DOCUMENT, metavar="FILE",
                        help="the document (default: docs/benchmarks.md)")
    options = parser.parse_args()
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"unknown section '{name}'; it is one of {', '.join(SECTIONS)}")
    return options


def measure(options):
    command = Command(str(options.reprise), QUICK if options.quick else FULL, options.threads)
    there = command.workloads()
    for name in options.sections or SECTIONS:
        text = SECTIONS[name](command, there)
        if text is None:
            print(f"{name}: this build has none of its workloads", file=sys.stderr)
            continue
        print(f"{name}\n\n{text}\n")
        if not options.quick:
            replace_section(options.write, name, text)


def main():
    try:
        measure(read_options())
    except (BenchError, DocumentError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
