#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the layering of the C++ sources, and a few rules of layout.

  - A room uses only rooms to the left of it:
    torch, offload, meter, tape, plan, policy, profile, checkpoint|budget, amp|distributed, report,
    training, workloads, tools.
  - Only src/torch/ includes LibTorch's internal headers; tests and benches may, to play its part.
  - A public header includes only the standard library, reprise/ and light LibTorch headers.
  - No circular includes, no file over 600 lines, an SPDX line first.

Usage: check_layers.py [--root DIR] [--self-test]
"""

import argparse
import fnmatch
import re
import sys
import tempfile
from pathlib import Path

SPDX = "// SPDX-License-Identifier: BSD-3-Clause"
MAX_LINES = 600

# From left to right; rooms of one row do not see each other.
ROWS = [
    ["base"],
    ["torch"],
    ["offload"],
    ["meter"],
    ["tape"],
    ["plan"],
    ["policy"],
    ["profile"],
    ["checkpoint", "budget"],
    ["amp", "distributed"],
    ["report"],
    ["training"],
    ["workloads"],
    ["tools"],
]
RANK = {room: rank for rank, row in enumerate(ROWS) for room in row}

# The room that each public header belongs to. 'any' may include everything public, and is
# included by no room.
PUBLIC_ROOMS = {
    "error.h": "base",
    "export.h": "base",
    "suggest.h": "base",
    "text_style.h": "base",
    "version.h": "base",
    "hooks.h": "torch",
    "nested.h": "torch",
    "meta_scope.h": "torch",
    "meter.h": "meter",
    "ledger.h": "meter",
    "equality.h": "meter",
    "plan.h": "plan",
    "trace_step.h": "profile",
    "policy.h": "policy",
    "scope.h": "policy",
    "layer_class.h": "policy",
    "module_paths.h": "policy",
    "profile.h": "profile",
    "offload.h": "offload",
    "store.h": "offload",
    "checkpoint.h": "checkpoint",
    "checkpoint_options.h": "checkpoint",
    "execution_group.h": "torch",
    "region_report.h": "meter",
    "checkpointed.h": "checkpoint",
    "segments.h": "checkpoint",
    "sequential.h": "checkpoint",
    "stats.h": "meter",
    "detail/bound_call.h": "checkpoint",
    "detail/checkpointed_module.h": "checkpoint",
    "detail/reentrant.h": "checkpoint",
    "detail/region.h": "checkpoint",
    "budget.h": "budget",
    "budget_infeasible.h": "base",
    "amp.h": "amp",
    "accumulate.h": "training",
    "monitor.h": "training",
    "resume.h": "training",
    "distributed.h": "distributed",
    "report.h": "report",
    "html_report.h": "report",
    "snapshot.h": "report",
    "profile_report.h": "report",
    "plan_report.h": "report",
    "reprise.h": "umbrella",
}

# LibTorch headers that are not for its users.
INTERNAL = [
    "torch/csrc/*",
    "c10/core/impl/*",
    "c10/core/SafePyObject.h",
    "c10/core/PyHandleCache.h",
    "c10/util/ThreadLocalDebugInfo.h",
    "ATen/core/PythonFallbackKernel.h",
    "ATen/core/boxing/*",
    "ATen/core/dispatch/*",
    "ATen/core/stack.h",
    "ATen/CPUGeneratorImpl.h",
    "ATen/PythonTorchFunctionTLS.h",
    "ATen/SavedTensorHooks.h",
    "ATen/ThreadLocalPythonObjects.h",
    "ATen/ThreadLocalState.h",
    "ATen/autocast_mode.h",
    "ATen/functorch/*",
    "ATen/record_function.h",
]
INTERNAL_EXCEPTIONS = ["torch/csrc/api/include/*"]

# What a public header may include of LibTorch.
LIGHT = ["ATen/core/*", "c10/core/*", "c10/macros/*", "c10/util/*"]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def is_internal(name):
    return matches(name, INTERNAL) and not matches(name, INTERNAL_EXCEPTIONS)


class Source:
    """One C++ file: where it is, its room, and what it includes."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")
        parts = self.path.split("/")
        self.top = parts[0]
        self.room = None
        if self.path.startswith("include/reprise/"):
            self.room = PUBLIC_ROOMS.get("/".join(parts[2:]))
        elif self.top == "src":
            self.room = parts[1] if len(parts) > 2 else None
        elif self.top in ("workloads", "tools"):
            self.room = self.top
        code = COMMENT.sub(lambda found: "\n" * found.group().count("\n"), self.text)
        # (line, quoted?, name)
        self.includes = [
            (code.count("\n", 0, found.start()) + 1, found.group(1) == '"', found.group(2))
            for found in INCLUDE.finditer(code)
        ]


class Checker:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.sources = {}
        for top in ("include", "src", "workloads", "tools", "tests", "bench", "examples"):
            for path in sorted((root / top).rglob("*")):
                if path.suffix in (".h", ".cpp"):
                    source = Source(root, path)
                    self.sources[source.path] = source

    def run(self):
        for source in self.sources.values():
            self.check_form(source)
            self.check_room(source)
            for line, quoted, name in source.includes:
                self.check_include(source, line, quoted, name)
        self.check_cycles()
        return self.problems

    def report(self, source, line, text):
        self.problems.append(f"{source.path}:{line}: {text}")

    def check_form(self, source):
        if not source.text.startswith(SPDX + "\n"):
            self.report(source, 1, f"the first line must be '{SPDX}'")
        lines = source.text.count("\n")
        if lines > MAX_LINES:
            self.report(source, lines, f"{lines} lines; at most {MAX_LINES}: split the file")

    def check_room(self, source):
        if source.top == "include" and source.room is None:
            self.report(source, 1, "unknown public header: add it to PUBLIC_ROOMS in check_layers.py")
        if source.top == "src" and source.room not in RANK:
            self.report(source, 1, f"no such room '{source.room}': add it to ROWS in check_layers.py")

    def resolve(self, source, quoted, name):
        """The project file that an include means, or None."""
        candidates = []
        if quoted:
            if source.top in ("src", "tests"):
                candidates.append(f"src/{name}")
            candidates.append(name)
            if source.top not in ("src", "include"):
                candidates.append(f"{source.path.rpartition('/')[0]}/{name}")
        elif name.startswith("reprise/"):
            candidates.append(f"include/{name}")
        return next((path for path in candidates if path in self.sources), None)

    def check_include(self, source, line, quoted, name):
        target = self.resolve(source, quoted, name)
        if target is not None:
            self.check_direction(source, line, self.sources[target])
        elif quoted or name.startswith("reprise/"):
            self.report(source, line, f"no project header '{name}': write its path from src/ or from the root")

        internals_allowed = source.path.startswith("src/torch/") or source.top in ("tests", "bench")
        if not quoted and is_internal(name) and not internals_allowed:
            self.report(source, line, f"<{name}> is internal to LibTorch: only src/torch/ may include it")
        if source.top == "include" and target is None and not quoted:
            standard = "/" not in name and "." not in name
            if not standard and not matches(name, LIGHT):
                self.report(source, line, f"<{name}> is too heavy for a public header")

    def check_direction(self, source, line, target):
        if target.top == "src":
            internal_test = source.path.startswith("tests/internal/")
            if source.top != "src" and not internal_test:
                self.report(source, line, f"{target.path} is internal to the library")
                return
        if target.top in ("tests", "bench", "examples") and target.top != source.top:
            self.report(source, line, f"{target.path} is only for {target.top}/")
            return
        if target.room == "umbrella":
            if source.top in ("src", "include"):
                self.report(source, line, "the library never includes <reprise/reprise.h>")
            return
        if source.room not in RANK or target.room not in RANK or source.room == target.room:
            return  # the umbrella, tests and other users of the public headers; unknown rooms
        if RANK[target.room] >= RANK[source.room]:
            self.report(
                source, line,
                f"room {source.room} must not use {target.path} of room {target.room}, "
                "which is not to the left of it")

    def check_cycles(self):
        graph = {
            path: [
                (line, target)
                for line, quoted, name in source.includes
                if (target := self.resolve(source, quoted, name)) is not None
            ]
            for path, source in self.sources.items()
        }
        done, trail = set(), []

        def visit(path):
            trail.append(path)
            for line, target in graph[path]:
                if target in trail:
                    cycle = " -> ".join(trail[trail.index(target):] + [target])
                    self.report(self.sources[path], line, f"circular include: {cycle}")
                elif target not in done:
                    visit(target)
            trail.pop()
            done.add(path)

        for path in graph:
            if path not in done:
                visit(path)


# --- self-test -------------------------------------------------------------------------------

GOOD_TREE = {
    "include/reprise/error.h": "#pragma once\n#include <string>\n",
    "include/reprise/meter.h": "#pragma once\n#include <ATen/core/Tensor.h>\n"
                               "#include <reprise/error.h>\n",
    "include/reprise/reprise.h": "#pragma once\n#include <reprise/meter.h>\n",
    "src/torch/rng.h": "#pragma once\n#include <ATen/CPUGeneratorImpl.h>\n",
    "src/torch/rng.cpp": '#include "torch/rng.h"\n#include <torch/csrc/autograd/engine.h>\n',
    "src/meter/meter.cpp": '#include <reprise/meter.h>\n#include "torch/rng.h"\n',
    "src/report/table.cpp": "// #include <torch/csrc/autograd/engine.h>\n#include <reprise/meter.h>\n",
    "workloads/digits.h": "#pragma once\n#include <torch/torch.h>\n",
    "tools/reprise/main.cpp": '#include <reprise/reprise.h>\n#include "workloads/digits.h"\n'
                              '#include "options.h"\n',
    "tools/reprise/options.h": "#pragma once\n",
    "tests/meter_test.cpp": "#include <reprise/reprise.h>\n#include <c10/core/impl/FakeGuardImpl.h>\n",
    "tests/internal/rng_test.cpp": '#include "torch/rng.h"\n',
}

# (file, its content, a part of the problem that must be found)
BAD_FILES = [
    ("src/torch/a.cpp", "#include <reprise/meter.h>\n", "must not use include/reprise/meter.h"),
    ("src/torch/a.cpp", '#include "workloads/digits.h"\n', "room torch must not use"),
    ("src/checkpoint/a.cpp", '#include "budget/b.h"\n', "room checkpoint must not use"),
    ("src/kitchen/a.cpp", "int a;\n", "no such room 'kitchen'"),
    ("src/a.cpp", "int a;\n", "no such room"),
    ("src/meter/a.cpp", "#include <ATen/SavedTensorHooks.h>\n", "is internal to LibTorch"),
    ("src/meter/a.cpp", "#  include <c10/core/impl/PyInterpreter.h>\n", "is internal to LibTorch"),
    ("workloads/a.cpp", "#include <torch/csrc/autograd/function.h>\n", "is internal to LibTorch"),
    ("tools/reprise/a.cpp", '#include "torch/rng.h"\n', "no project header"),
    ("tests/a_test.cpp", '#include "torch/rng.h"\n', "is internal to the library"),
    ("src/meter/a.cpp", '#include "meter/nothing.h"\n', "no project header 'meter/nothing.h'"),
    ("src/torch/a.cpp", '#include "rng.h"\n', "no project header 'rng.h'"),
    ("src/meter/a.cpp", "#include <reprise/nothing.h>\n", "no project header 'reprise/nothing.h'"),
    ("src/meter/a.cpp", "#include <reprise/reprise.h>\n", "never includes <reprise/reprise.h>"),
    ("include/reprise/nothing.h", "#pragma once\n", "unknown public header"),
    ("include/reprise/error.h", "#include <torch/torch.h>\n", "too heavy for a public header"),
    ("include/reprise/error.h", "#include <nlohmann/json.hpp>\n", "too heavy for a public header"),
    ("include/reprise/error.h", "#include <ATen/core/dispatch/Dispatcher.h>\n", "is internal to"),
    ("include/reprise/error.h", "#include <reprise/meter.h>\n", "room base must not use"),
    ("src/meter/c.h", '#include "meter/d.h"\n', "circular include: src/meter/c.h -> src/meter/d.h"),
    ("src/meter/a.cpp", "\n" * MAX_LINES, "at most 600"),
    ("src/meter/a.cpp", None, "the first line must be"),
]


def write_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("int a;\n" if text is None else f"{SPDX}\n{text}", encoding="utf-8")


def self_test():
    failures = 0
    cases = [(None, None, None), *BAD_FILES]
    for name, text, wanted in cases:
        with tempfile.TemporaryDirectory() as folder:
            files = dict(GOOD_TREE)
            files["src/budget/b.h"] = "#pragma once\n"
            files["src/meter/d.h"] = "#pragma once\n"
            if name is not None:
                files[name] = text
            if wanted is not None and wanted.startswith("circular"):
                files["src/meter/d.h"] = '#include "meter/c.h"\n'
            write_tree(Path(folder), files)
            problems = Checker(Path(folder)).run()
        if wanted is None:
            passed = not problems
        else:
            passed = any(wanted in problem for problem in problems)
        if not passed:
            failures += 1
            print(f"self-test: {name}: wanted {wanted!r}, got {problems}", file=sys.stderr)
    print(f"self-test: {len(cases) - failures} passed, {failures} failed")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="Checks the layering of the C++ sources.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true", help="check this script on bad inputs")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()

    checker = Checker(arguments.root)
    problems = checker.run()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"layers: {len(problems)} problems", file=sys.stderr)
        return 1
    print(f"layers: {len(checker.sources)} files keep the rules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
