# SPDX-License-Identifier: BSD-3-Clause
"""What the programs that measure write into docs/benchmarks.md: each replaces its own section."""

import datetime
import os
import platform
import re
import statistics
from pathlib import Path
from random import Random

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
MIB = 2**20


class DocumentError(Exception):
    """The document is not as it should be."""


def field_of(path, name):
    """The value after "name :" in a file of /proc, or None."""
    try:
        text = Path(path).read_text()
    except OSError:
        return None
    found = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def machine():
    """CPU, cores, memory and system; neither the machine's name nor its user's."""
    facts = [field_of("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
             f"{os.cpu_count()} cores"]
    memory = field_of("/proc/meminfo", "MemTotal")
    if memory:
        facts.append(f"{int(memory.split()[0]) / MIB:.0f} GiB")
    return ", ".join([*facts, f"{platform.system()} {platform.release().split('-')[0]}"])


def measured_on(libtorch, threads):
    today = datetime.date.today().isoformat()
    return (f"Measured on {today}: {machine()}; LibTorch {libtorch}, {threads} "
            f"{'thread' if threads == 1 else 'threads'}; load of the machine in the last minute: "
            f"{os.getloadavg()[0]:.1f}.")


def table(head, rows):
    """In Markdown; lined up, to be read as it is."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
                     for line in lines)


def mib(count):
    return f"{count / MIB:.1f} MiB"


def ratio_interval(values, reference, resamples=2000):
    """Median ratio of what was measured in the same rounds, and its 95 % interval: the percentile
    bootstrap over rounds (Efron and Tibshirani, An Introduction to the Bootstrap, 1993)."""
    draw = Random(1993)
    rounds = range(len(values))
    ratio = statistics.median(values) / statistics.median(reference)
    ratios = []
    for _ in range(resamples):
        chosen = draw.choices(rounds, k=len(rounds))
        ratios.append(statistics.median([values[i] for i in chosen])
                      / statistics.median([reference[i] for i in chosen]))
    ratios.sort()
    tail = int(0.025 * resamples)
    return ratio, min(ratios[tail], ratio), max(ratios[-1 - tail], ratio)


def replace_section(path, name, text):
    """Writes `text` between the marks of that name in the document."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    document = Path(path).read_text(encoding="utf-8")
    if document.count(begin) != 1 or document.count(end) != 1:
        raise DocumentError(f"{path}: one line '{begin}' and one '{end}' are expected")
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    new = f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"
    temporary = Path(f"{path}.tmp")
    temporary.write_text(new, encoding="utf-8")
    temporary.replace(path)
