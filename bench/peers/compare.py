#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares Reprise with Python's torch.utils.checkpoint on the workload gpt.

Two processes hold the same model, one in C++, one in Python. They run single steps in turn, so
that only one works at any time and both meet the same machine. docs/peers.md says more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# (C++, Python): what is set against what.
PAIRS = [
    ("plain", "plain"),
    ("checkpoint", "checkpoint"),
    ("tape:full", "checkpoint"),
    ("tape:every_layer", "checkpoint"),
    ("tape:keep_matmuls", "selective"),
]
SIZES = {"layers": 6, "width": 384, "heads": 6, "batch": 8, "context": 256, "threads": 2}
MIB = 2**20


class PeerError(Exception):
    """What went wrong, and the process's own words."""


class Peer:
    """A process that answers lines with lines of JSON."""

    def __init__(self, side, command):
        self.side = side
        self.stderr = tempfile.TemporaryFile(mode="w+")
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True,
                                            stdout=subprocess.PIPE, stderr=self.stderr)
        except OSError as error:
            raise PeerError(f"{side}: cannot start {command[0]}: {error.strerror}") from None

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone: the missing answer is reported, with the reason
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.stderr.seek(0)
            raise PeerError(f"{self.side}: no answer to '{request}', ended with code {code}\n"
                            + self.stderr.read().strip())
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.side}: '{request}': {answer['error']}")
        return answer

    def close(self):
        """Ends its input, and so the process."""
        self.process.communicate()
        self.stderr.close()


def require_alike(cpp, python):
    """Figures of two different models, or of two versions of LibTorch, say nothing."""
    ours, theirs = cpp.ask("params"), python.ask("params")
    if ours != theirs:
        raise PeerError(f"the sides are not alike: C++ has {ours}, Python has {theirs}")
    return ours


def require_equal_losses(entries):
    losses = [step["loss"] for entry in entries for step in entry["steps"]]
    if not max(losses) - min(losses) <= 1e-5 * abs(losses[0]):
        raise PeerError(f"the losses differ, from {min(losses)} to {max(losses)}: the sides do not "
                        "compute the same")
    return losses[0], len(set(losses)) == 1


def run(sides, rounds, progress):
    """One entry for each member of each pair, with its steps; the first step of all warms up."""
    entries = [{"pair": pair, "side": side, "strategy": strategy, "steps": []}
               for pair, strategies in enumerate(PAIRS)
               for side, strategy in zip(sides, strategies)]
    for number in range(rounds + 1):
        progress(f"round {number} of {rounds}" if number else "warm-up")
        for entry in entries:
            step = sides[entry["side"]].ask("step " + entry["strategy"])
            if number:
                entry["steps"].append(step)
    return entries


def summarise(entries):
    plain = {entry["side"]: entry for entry in entries if entry["strategy"] == "plain"}
    for entry in entries:
        times = [step["step_ms"] for step in entry["steps"]]
        entry["median_ms"], entry["min_ms"] = statistics.median(times), min(times)
        entry["peak_bytes"] = max(step["peak_bytes"] for step in entry["steps"])
        entry["held_bytes"] = max(step["held_bytes"] for step in entry["steps"])
    for entry in entries:
        own = plain[entry["side"]]
        entry["time_to_own_plain"] = entry["median_ms"] / own["median_ms"]
        entry["time_to_cpp_plain"] = entry["median_ms"] / plain["C++"]["median_ms"]
        entry["peak_to_own_plain"] = entry["peak_bytes"] / own["peak_bytes"]


def table(entries):
    """In Markdown, to be pasted into docs/peers.md; lined up, to be read as it is."""
    head = ["side", "strategy", "median", "min", "to own plain", "to C++ plain", "peak",
            "peak to own plain", "held"]
    rows = [[entry["side"], entry["strategy"], f"{entry['median_ms']:.0f} ms",
             f"{entry['min_ms']:.0f} ms", f"{entry['time_to_own_plain']:.3f}",
             f"{entry['time_to_cpp_plain']:.3f}", f"{entry['peak_bytes'] / MIB:.1f} MiB",
             f"{entry['peak_to_own_plain']:.3f}", f"{entry['held_bytes'] / MIB:.1f} MiB"]
            for entry in entries]
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
                     for line in lines)


def read_options():
    here = Path(__file__).resolve()
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, metavar="PATH",
                        help="a Python with PyTorch of the LibTorch's version (default: this one)")
    parser.add_argument("--build", default=here.parents[2] / "build", type=Path, metavar="DIR",
                        help="the build with gpt_peer and peer_meter (default: build)")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds (default: 7)")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON, too")
    for name, size in SIZES.items():
        parser.add_argument("--" + name, type=int, default=size, help=f"default {size}")
    parser.add_argument("--dropout", type=float, default=0.1, help="default 0.1")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: a whole number of 1 or more is expected")
    return options


def start(options):
    programs = options.build / "bench" / "peers"
    sizes = [f"--{name}={getattr(options, name)}" for name in (*SIZES, "dropout", "seed")]
    cpp = Peer("C++", [str(programs / "gpt_peer"), *sizes])
    script = Path(__file__).with_name("gpt_peer.py")
    python = Peer("Python", [options.python, str(script),
                             f"--meter={programs / 'libpeer_meter.so'}", *sizes])
    return {"C++": cpp, "Python": python}


def compare(options):
    sides = start(options)
    common = require_alike(*sides.values())
    entries = run(sides, options.rounds, lambda text: print(text, file=sys.stderr))
    for peer in sides.values():
        peer.close()
    summarise(entries)
    loss, same_bits = require_equal_losses(entries)
    sizes = {name: getattr(options, name) for name in (*SIZES, "dropout", "seed")}
    load = os.getloadavg()
    print(f"gpt: {', '.join(f'{name} {size}' for name, size in sizes.items())}; "
          f"{common['parameters']} parameters; LibTorch {common['libtorch']}")
    print(f"rounds: {options.rounds}; load of the machine in the last minute: {load[0]:.1f}")
    print(f"loss {loss:.9g} in every step of both sides{'' if same_bits else ', to 1e-5'}\n")
    print(table(entries))
    if options.json:
        result = {"schema": 1, **common, **sizes, "rounds": options.rounds, "load": load,
                  "loss_bit_equal": same_bits, "rows": entries}
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


def main():
    options = read_options()
    try:
        compare(options)
    except (PeerError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
