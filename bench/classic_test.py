#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of classic.py from results that are made up, and from the command with tiny sizes.

Usage: classic_test.py REPRISE
"""

import subprocess
import sys
import unittest
from pathlib import Path

import classic

REPRISE = sys.argv.pop(1)


def row(strategy, **fields):
    return {"strategy": strategy, "peak_bytes": 2**20, "memory_ratio": 0.5, "step_ms_median": 10.0,
            "time_ratio": 1.25, "time_ratio_low": 1.2, "time_ratio_high": 1.3, "recomputed_ops": 0,
            "recomputed_ms": 2.5, "segments": None, "longest_segment_layers": None} | fields


class RuleTest(unittest.TestCase):
    def rows(self, whole=223):
        counts = {"plain": 0, "sequential:8": 189, "segments:1": 192, "segments:4": 216,
                  "segments:32": whole}
        return {name: row(name, recomputed_ops=count) for name, count in counts.items()}

    def test_two_counts_give_the_operators_of_a_layer(self):
        self.assertEqual(classic.operators_of_a_layer(self.rows()), (7, 1))
        with self.assertRaisesRegex(classic.BenchError, "192 and 230"):
            classic.operators_of_a_layer(self.rows(whole=230))

    def test_the_rule_stands_beside_what_was_counted(self):
        text, _, _ = classic.rule_table({"rows": list(self.rows().values())})
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
        self.assertEqual(cells[0][:5], ["segments:4", "8", "224", "216", "216"])
        self.assertEqual(cells[1][:5], ["sequential:8", "7", "196", "189", "189"])
        self.assertEqual(cells[0][5:7], ["1.250", "1.250 (1.200 to 1.300)"])


class CellTest(unittest.TestCase):
    def test_few_steps_have_no_interval(self):
        few = row("x", time_ratio_low=None, time_ratio_high=None)
        self.assertEqual(classic.ratio(few), "1.250")

    def test_quality_has_its_unit(self):
        of = lambda value, unit: classic.quality({"quality_unit": unit},
                                                 row("x", training={"quality": value}))
        self.assertEqual(of(0.125, "%"), "12.50 %")
        self.assertEqual(of(1.98765, "nats/byte"), "1.988 nats/byte")
        self.assertEqual(of(3.0, None), "3")
        self.assertEqual(of(None, "%"), "-")


class QuickTest(unittest.TestCase):
    def run_classic(self, *arguments):
        script = Path(__file__).with_name("classic.py")
        return subprocess.run([sys.executable, script, "--quick", *arguments], capture_output=True,
                              text=True)

    def test_tiny_sizes_show_that_every_section_works(self):
        before = classic.DOCUMENT.read_bytes()
        done = self.run_classic("--reprise", REPRISE, "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("reprise compare blocks --layers 32", done.stdout)
        self.assertIn("| sequential:8 | 7 ", done.stdout)
        self.assertIn("| parts ", done.stdout)
        self.assertEqual(classic.DOCUMENT.read_bytes(), before)

    def test_mistakes_are_named(self):
        self.assertIn("unknown section 'segment'", self.run_classic("segment").stderr)
        missing = self.run_classic("--reprise", "/nowhere/reprise")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("error: ", missing.stderr)
        self.assertNotIn("Traceback", missing.stderr)


if __name__ == "__main__":
    unittest.main()
