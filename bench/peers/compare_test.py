#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The protocol of gpt_peer, and how the driver reports a process that fails. Needs no torch.

Usage: compare_test.py GPT_PEER
"""

import sys
import tempfile
import unittest
from pathlib import Path

from compare import (PAIRS, DocumentError, Peer, PeerError, duel, duels_of, in_words,
                     ratio_interval, replace_section, require_alike, require_equal_losses, run,
                     summarise, table, verdicts)

GPT_PEER = sys.argv.pop(1)
SMALL = ["--layers=2", "--width=16", "--heads=2", "--batch=2", "--context=8", "--threads=1"]


class PeersTest(unittest.TestCase):
    def start(self, command):
        peer = Peer("C++", command)
        self.addCleanup(peer.close)
        return peer

    def test_strategies_have_equal_losses_and_bytes_of_their_own(self):
        peer = self.start([GPT_PEER, *SMALL, "--dropout=0.1", "--seed=3"])
        plain, tape = peer.ask("step plain"), peer.ask("step tape:full")
        self.assertEqual(plain["strategy"], "plain")
        self.assertEqual(plain["loss"], tape["loss"])
        self.assertGreater(plain["held_bytes"], 0)
        self.assertGreaterEqual(plain["peak_bytes"], plain["held_bytes"])
        self.assertGreater(plain["step_ms"], 0)
        self.assertEqual(peer.ask("step plain")["peak_bytes"], plain["peak_bytes"])

    def test_parameters_are_counted(self):
        peer = self.start([GPT_PEER, *SMALL])
        embeddings, block, norm = (256 + 8) * 16, 12 * 16 * 16 + 13 * 16, 2 * 16
        self.assertEqual(peer.ask("params")["parameters"], embeddings + 2 * block + norm)

    def test_unknown_requests_are_answered_and_the_next_one_works(self):
        peer = self.start([GPT_PEER, *SMALL])
        for request in ("", "stop", "step", "step plain twice", "step chekpoint", "params all", "save",
                        "save /nowhere/state"):
            with self.subTest(request), self.assertRaises(PeerError):
                peer.ask(request)
        self.assertIn("loss", peer.ask("step checkpoint"))

    def test_a_process_that_ends_is_reported_with_its_words(self):
        peer = self.start([sys.executable, "-c", "import sys; sys.exit('out of luck')"])
        with self.assertRaisesRegex(PeerError, "no answer to 'params'.*code 1\nout of luck"):
            peer.ask("params")

    def test_bad_sizes_are_named(self):
        peer = self.start([GPT_PEER, *SMALL, "--dropout=2"])
        with self.assertRaisesRegex(PeerError, "--dropout"):
            peer.ask("params")

    def test_every_strategy_of_the_pairs_has_the_loss_of_plain(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        peer = self.start([GPT_PEER, *SMALL, f"--store={folder.name}", "--dropout=0.1"])
        losses = {ours: peer.ask("step " + ours)["loss"] for ours, _ in PAIRS}
        self.assertEqual(set(losses.values()), {losses["plain"]})

    def test_weights_batch_and_seed_are_saved(self):
        peer = self.start([GPT_PEER, *SMALL])
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "state"
            peer.ask(f"save {state}")
            self.assertGreater(state.stat().st_size, 4 * peer.ask("params")["parameters"])

    def test_the_table_has_both_sides_of_each_pair(self):
        entries = run({"C++": Fake(), "Python": Fake()}, rounds=3, progress=lambda text: None)
        summarise(entries)
        self.assertEqual([len(entry["steps"]) for entry in entries], [3] * 2 * len(PAIRS))
        self.assertEqual(entries[0]["time_to_own_plain"], 1)
        self.assertEqual(entries[-1]["strategy"], PAIRS[-1][1])
        self.assertEqual(entries[-1]["time_to_cpp_plain"], 2)
        self.assertEqual(entries[-1]["peak_to_own_plain"], 0.5)
        self.assertEqual(len(table(entries).splitlines()), 2 + len(entries))
        self.assertEqual(len(verdicts(duels_of(entries)).splitlines()), 2 + len(PAIRS))


class Fake:
    def ask(self, request):
        ms = 1 if request == "step plain" else 2
        return {"step_ms": ms, "peak_bytes": 8 // ms, "held_bytes": 1, "loss": 1.0}


def entry_of(times, peak):
    return {"strategy": "any", "steps": [{"step_ms": ms} for ms in times], "peak_bytes": peak}


class VerdictTest(unittest.TestCase):
    def test_wins_and_losses_are_told_from_noise(self):
        calm, slow, noisy = [10, 11, 10, 12, 11, 10], [20, 21, 22, 20, 21, 23], [5, 30, 7, 18, 6, 25]
        self.assertEqual(duel(entry_of(calm, 100), entry_of(slow, 50))["time"], "wins")
        self.assertEqual(duel(entry_of(calm, 100), entry_of(slow, 50))["peak"], "loses")
        self.assertEqual(duel(entry_of(slow, 50), entry_of(calm, 100))["time"], "loses")
        self.assertEqual(duel(entry_of(noisy, 100), entry_of(calm, 100))["time"], "even")
        self.assertEqual(duel(entry_of(noisy, 1000), entry_of(calm, 1001))["peak"], "even")

    def test_both_are_named_in_words(self):
        one = duel(entry_of([1] * 6, 3), entry_of([2] * 6, 2)) | {"cpp": "a", "python": "b"}
        self.assertEqual(in_words([one]).splitlines(), [
            "- Reprise wins: a against b (time).", "- Reprise loses: a against b (peak).",
            "- No difference: nowhere."])

    def test_an_interval_holds_its_ratio_and_pairs_rounds(self):
        rounds = [1, 2, 3, 50, 5, 6]
        ratio, low, high = ratio_interval([2 * ms for ms in rounds], rounds)
        self.assertEqual((ratio, low, high), (2, 2, 2))

    def test_sides_that_are_not_alike_are_refused(self):
        require_alike({"parameters": 1}, {"parameters": 1})
        with self.assertRaisesRegex(PeerError, "not alike"):
            require_alike({"parameters": 1}, {"parameters": 2})
        step = {"loss": 2.0}
        require_equal_losses([{"steps": [step, {"loss": 2.0 + 1e-6}]}])
        with self.assertRaisesRegex(PeerError, "losses differ"):
            require_equal_losses([{"steps": [step, {"loss": 2.001}]}])


class DocumentTest(unittest.TestCase):
    def test_only_the_named_section_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "document.md"
            path.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n")
            replace_section(path, "x", "new\n")
            self.assertEqual(path.read_text(),
                             "a\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\nb\n")
            with self.assertRaisesRegex(DocumentError, "y: begin"):
                replace_section(path, "y", "new")
            self.assertEqual(len(list(Path(folder).iterdir())), 1)


if __name__ == "__main__":
    unittest.main()
