#!/usr/bin/env python3
"""Six sites, three of which nobody can dial: every overlay and served strategies, over TLS. The
relay killed on the way. In real time, so nightly.

    LONGHAUL=build/release/longhaul tests/cli/relay_lab_test.py
"""
import re
import shutil
import signal
import time
import unittest

from launch_test import Case, job_of, test_keys
from ports import free_addresses

SITES = ["tokyo", "lima", "oslo", "bonn", "cairo", "paris"]
HIDDEN = ["tokyo", "oslo", "cairo"]  # of each pair of neighbours one
# Whose sums do not depend on the order of arrival: simulator and sockets end with the same bits.
OVERLAYS = ["direct", "hub", "ring", "rack", "binary", "halving_doubling", "hierarchical", "forest"]


class Relays(Case):
    def setUp(self):
        super().setUp()
        shutil.rmtree(self.folder / "keys")
        shutil.copytree(test_keys(), self.folder / "keys")
        self.write(job_of(SITES))

    def start_all(self, *words):
        shown = [name for name in SITES if name not in HIDDEN]
        addresses = dict(zip(shown, free_addresses(len(shown)).split(",")))
        for name in shown:
            words += ("--set", f"site.{name}.address={addresses[name]}")
        for name in HIDDEN:
            words += ("--set", f"site.{name}.dial_out=true")
        words = ("site", "job.toml", "--force", *words)
        return {name: self.start(*words, "--site", name, "--out", name) for name in SITES}

    def train(self, *words):
        """params_hash of all sites, which is one; what they said."""
        sites = self.start_all(*words)
        said = {}
        for name, site in sites.items():
            code, said[name] = self.end(site)
            self.assertEqual(code, 0, said[name])
        hashes = {self.summary(name)["params_hash"] for name in SITES}
        self.assertEqual(len(hashes), 1)
        return hashes.pop(), said

    def test_every_overlay_ends_as_simulated(self):
        for overlay in OVERLAYS:
            with self.subTest(overlay=overlay):
                words = ("--set", f"overlay.kind={overlay}")
                self.run_ok("simulate", "job.toml", "--force", "--out", "simulated", *words)
                found, said = self.train(*words)
                self.assertEqual(found, self.summary("simulated")["params_hash"])
                if overlay in ("direct", "ring"):
                    relayed = sum(text.count("has relayed") for text in said.values())
                    self.assertGreater(relayed, 0)

    def test_strategies_with_a_server_and_with_peers_train(self):
        for sync in ("asp", "ssp", "fedasync", "dpsgd", "gaia"):
            with self.subTest(sync=sync):
                found, said = self.train("--set", f"sync.kind={sync}")
                self.assertTrue(found)

    def test_the_first_relay_is_killed(self):
        sites = self.start_all("--set", "overlay.kind=direct", "--set", "net.silence_s=4",
                               "--set", "stop.max_rounds=4000")
        relay = next(name for name in SITES if name not in HIDDEN)
        metrics = self.folder / SITES[0] / "metrics.jsonl"
        deadline = time.monotonic() + 90
        while not metrics.exists() or "score" not in metrics.read_text():
            self.assertLess(time.monotonic(), deadline, self.said(sites[relay]))
            time.sleep(0.05)
        sites[relay].send_signal(signal.SIGKILL)
        for name, site in sites.items():
            if name == relay:
                continue
            code, text = self.end(site)
            self.assertEqual(code, 0, text)
            self.assertIn("with 5 of 6", text)
            last = dict(re.findall(r"reaches rank (\d) .*through rank \d \((\w+)\)", text))
            self.assertEqual(len(last), 2 if name in HIDDEN else 0)
            self.assertNotIn(relay, last.values())


if __name__ == "__main__":
    unittest.main(verbosity=2)
