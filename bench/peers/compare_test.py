#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The protocol of gpt_peer, and how the driver reports a process that fails. Needs no torch.

Usage: compare_test.py GPT_PEER
"""

import sys
import unittest

from compare import Peer, PeerError, run, summarise, table

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
        for request in ("", "stop", "step", "step plain twice", "step chekpoint", "params all"):
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

    def test_the_table_has_both_sides_of_each_pair(self):
        class Fake:
            def ask(self, request):
                ms = 1 if request == "step plain" else 2
                return {"step_ms": ms, "peak_bytes": 8 // ms, "held_bytes": 1, "loss": 1.0}

        entries = run({"C++": Fake(), "Python": Fake()}, rounds=3, progress=lambda text: None)
        summarise(entries)
        self.assertEqual([len(entry["steps"]) for entry in entries], [3] * 10)
        self.assertEqual(entries[0]["time_to_own_plain"], 1)
        self.assertEqual(entries[9]["strategy"], "selective")
        self.assertEqual(entries[9]["time_to_cpp_plain"], 2)
        self.assertEqual(entries[9]["peak_to_own_plain"], 0.5)
        self.assertEqual(len(table(entries).splitlines()), 12)


if __name__ == "__main__":
    unittest.main()
