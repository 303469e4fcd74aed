#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares Reprise with Python's torch.utils.checkpoint on the workload gpt.

Two processes hold the same model with the same weights, one in C++, one in Python. They run single
steps in turn, so that only one works at any time and both meet the same machine. docs/benchmarks.md
says more, and is where --write puts the result.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from document import (DOCUMENT, DocumentError, measured_on, mib, ratio_interval,  # noqa: E402
                      replace_section, table as markdown)
from python_torch import python_with_torch  # noqa: E402

# (C++, Python): what is set against what.
PAIRS = [
    ("plain", "plain"),
    ("plain", "save_on_cpu"),
    ("checkpoint", "checkpoint"),
    ("checkpoint+operators", "checkpoint"),
    ("tape:full", "checkpoint"),
    ("parts", "parts"),
    ("tape:every_layer", "parts"),
    ("tape:keep_matmuls", "selective"),
    ("tape:classes", "selective"),
    ("offload:disk", "save_on_cpu"),
    ("offload:disk", "save_to_disk"),
]
SIZES = {"layers": 6, "width": 384, "heads": 6, "batch": 8, "context": 256, "threads": 2}
MODEL = (*SIZES, "dropout")
SAME_BYTES = 0.005  # peaks closer than this are called equal


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


def require_alike(ours, theirs):
    """Figures of two different models, or of two versions of LibTorch, say nothing."""
    if ours != theirs:
        raise PeerError(f"the sides are not alike: C++ has {ours}, Python has {theirs}")


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


def times_of(entry):
    return [step["step_ms"] for step in entry["steps"]]


def summarise(entries):
    plain = {}
    for entry in entries:
        if entry["strategy"] == "plain":
            plain.setdefault(entry["side"], entry)
    for entry in entries:
        entry["median_ms"], entry["min_ms"] = statistics.median(times_of(entry)), min(times_of(entry))
        entry["peak_bytes"] = max(step["peak_bytes"] for step in entry["steps"])
        entry["held_bytes"] = max(step["held_bytes"] for step in entry["steps"])
    for entry in entries:
        own = plain[entry["side"]]
        entry["time_to_own_plain"] = entry["median_ms"] / own["median_ms"]
        entry["time_to_cpp_plain"] = entry["median_ms"] / plain["C++"]["median_ms"]
        entry["peak_to_own_plain"] = entry["peak_bytes"] / own["peak_bytes"]


def duel(ours, theirs):
    """What a pair of entries says: C++ over Python, and whether C++ wins, loses or is even."""
    ratio, low, high = ratio_interval(times_of(ours), times_of(theirs))
    peak = ours["peak_bytes"] / theirs["peak_bytes"]
    return {"cpp": ours["strategy"], "python": theirs["strategy"], "time_ratio": ratio,
            "time_ratio_low": low, "time_ratio_high": high, "peak_ratio": peak,
            "time": "wins" if high < 1 else "loses" if low > 1 else "even",
            "peak": ("even" if abs(peak - 1) < SAME_BYTES else "wins" if peak < 1 else "loses")}


def duels_of(entries):
    return [duel(ours, theirs) for ours, theirs in zip(entries[::2], entries[1::2])]


def table(entries):
    head = ["side", "strategy", "median", "min", "to own plain", "to C++ plain", "peak",
            "peak to own plain", "held"]
    return markdown(head, [
        [entry["side"], entry["strategy"], f"{entry['median_ms']:.0f} ms",
         f"{entry['min_ms']:.0f} ms", f"{entry['time_to_own_plain']:.3f}",
         f"{entry['time_to_cpp_plain']:.3f}", mib(entry["peak_bytes"]),
         f"{entry['peak_to_own_plain']:.3f}", mib(entry["held_bytes"])] for entry in entries])


def verdicts(duels):
    return markdown(["Reprise", "Python", "time ratio", "95 %", "Reprise's time", "peak ratio",
                     "Reprise's peak"], [
        [one["cpp"], one["python"], f"{one['time_ratio']:.3f}",
         f"{one['time_ratio_low']:.3f} to {one['time_ratio_high']:.3f}", one["time"],
         f"{one['peak_ratio']:.3f}", one["peak"]] for one in duels])


def in_words(duels):
    """Wins and losses, both."""
    lines = []
    for word, verb in (("wins", "Reprise wins"), ("loses", "Reprise loses"),
                       ("even", "No difference")):
        named = [f"{one['cpp']} against {one['python']} ({what})"
                 for one in duels for what in ("time", "peak") if one[what] == word]
        lines.append(f"- {verb}: {'; '.join(named) if named else 'nowhere'}.")
    return "\n".join(lines)


def read_options():
    here = Path(__file__).resolve()
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="PATH",
                        help="a Python with PyTorch of the LibTorch's version")
    parser.add_argument("--venv", default=here.parents[2] / "build" / "peers-venv", type=Path,
                        metavar="DIR", help="without --python: a virtual environment for it, made and "
                        "filled where that is missing (default: build/peers-venv)")
    parser.add_argument("--build", default=here.parents[2] / "build", type=Path, metavar="DIR",
                        help="the build with gpt_peer and peer_meter (default: build)")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds (default: 7)")
    parser.add_argument("--store", metavar="DIR", help="a folder on a disk, for what is offloaded "
                        "(default: one for temporary files)")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON, too")
    parser.add_argument("--write", nargs="?", const=DOCUMENT, metavar="FILE",
                        help="replace the section 'peers' of this file (default: docs/benchmarks.md)")
    for name, size in SIZES.items():
        parser.add_argument("--" + name, type=int, default=size, help=f"default {size}")
    parser.add_argument("--dropout", type=float, default=0.1, help="default 0.1")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: a whole number of 1 or more is expected")
    return options


def start(options, folder):
    """Both sides, with the same weights, batch and seeds; and what they have in common."""
    programs = options.build / "bench" / "peers"
    sizes = [f"--{name}={getattr(options, name)}" for name in MODEL]
    store = options.store or folder
    cpp = Peer("C++", [str(programs / "gpt_peer"), *sizes, f"--seed={options.seed}",
                       f"--store={store}"])
    common = cpp.ask("params")
    state = Path(folder) / "state"
    cpp.ask(f"save {state}")
    python = Peer("Python", [options.python or python_with_torch(options.venv, common["libtorch"]),
                             str(Path(__file__).with_name("gpt_peer.py")),
                             f"--meter={programs / 'libpeer_meter.so'}", f"--state={state}", f"--store={store}", *sizes])
    require_alike(common, python.ask("params"))
    return {"C++": cpp, "Python": python}, common


def compare(options):
    with tempfile.TemporaryDirectory() as folder:
        sides, common = start(options, folder)
        entries = run(sides, options.rounds, lambda text: print(text, file=sys.stderr))
        for peer in sides.values():
            peer.close()
    summarise(entries)
    loss, same_bits = require_equal_losses(entries)
    duels = duels_of(entries)
    sizes = {name: getattr(options, name) for name in (*MODEL, "seed")}
    text = f"""{measured_on(common["libtorch"], options.threads)}

gpt: {', '.join(f'{name} {size}' for name, size in sizes.items())}; {common['parameters']} parameters;
{options.rounds} rounds. The loss, {loss:.9g}, is the same in every step of both sides,
{'bit by bit' if same_bits else 'to a part in 100,000'}.

{table(entries)}

Reprise over Python, paired by round:

{verdicts(duels)}

{in_words(duels)}"""
    print(text)
    if options.write:
        replace_section(options.write, "peers", text)
    if options.json:
        result = {"schema": 1, **common, **sizes, "rounds": options.rounds, "load": os.getloadavg(),
                  "loss_bit_equal": same_bits, "rows": entries, "duels": duels}
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


def main():
    options = read_options()
    try:
        compare(options)
    except (PeerError, DocumentError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
