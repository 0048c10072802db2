#!/usr/bin/env python3
"""selmcast and sfb as a user meets them: what explain says, copies by the network, refusals.

    LONGHAUL=build/release/longhaul tests/cli/multicast_test.py
"""
import json
import unittest

import cli_test
from effort import nightly

# Four sites that send 1 MB/s and get as much as they are sent; the model is 1 MB.
JOB = """\
[stop]
max_rounds = 3
[report]
every_rounds = 1000
[model]
kind = "phantom"
mbytes = 1
[sync]
kind = "selmcast"
[wan]
model = "fair"
slow_start = false
delay_ms = 1
""" + "".join(f'[[site]]\nname = "s{i}"\nup_mbps = 8\ndown_mbps = 800\nstep_ms = 10\n'
              for i in range(4))
MLP = """\
[model]
kind = "mlp"
hidden = [256]
[data]
kind = "synthetic"
features = 300
classes = 4
samples = 200
batch = 4
[sync]
kind = "sfb"
[wan]
mbps = 10
delay_ms = 5
[stop]
max_rounds = 4
[[site]]
name = "lima"
[[site]]
name = "oslo"
[[site]]
name = "paris"
"""


class Case(cli_test.Case):
    def simulated(self, *sets):
        words = [word for one in sets for word in ("--set", one)]
        return json.loads(self.run_ok("simulate", "job.toml", "--json", "--quiet", "--force",
                                      *words).stdout)


class Multicast(Case):
    def setUp(self):
        super().setUp()
        self.write(JOB)

    def test_copies_by_the_network_pass_the_uplink_once(self):
        by_sender = self.simulated("sync.receivers=all")["time_s"]
        by_network = self.simulated("sync.receivers=all", "sync.multicast=l3")["time_s"]
        # Three rounds of 3 MB from each, or of 1 MB, and the mean at the end (1.5 MB).
        self.assertAlmostEqual(by_sender / 10.9, 1, delta=0.05)
        self.assertAlmostEqual(by_network / 4.7, 1, delta=0.06)

    def test_copies_by_the_network_are_refused_elsewhere(self):
        self.write(MLP, "mlp.toml")
        done = self.longhaul("launch", "mlp.toml", "--set", "sync.kind=selmcast", "--set",
                             "sync.multicast=l3")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('multicast = "l3"', done.stderr)
        self.assertIn('"l7" over sockets', done.stderr)
        done = self.longhaul("simulate", "job.toml", "--set", "sync.multicast=l3", "--set",
                             "wan.model=fifo")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("[wan] model", done.stderr)

    def test_what_cannot_be_is_refused_by_name(self):
        for sets, what in ((("sync.mode=ssp", "sync.receivers=optimal"), "[sync] receivers"),
                           (("sync.mode=ssp", "sync.payload=update"), "[sync] payload"),
                           (("sync.payload=update", "sync.debt_mb=1"), "raise debt_mb")):
            words = [word for one in sets for word in ("--set", one)]
            done = self.longhaul("simulate", "job.toml", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(what, done.stderr)

    def test_explain_says_who_receives(self):
        said = self.run_ok("explain", "job.toml").stdout
        self.assertIn("chosen by bandwidth", said)
        self.assertRegex(said, r"(?m)^\w+ +channel +[\d ]+ +\d+ +\w+$")


class Factors(Case):
    def setUp(self):
        super().setUp()
        self.write(MLP)

    def test_explain_says_what_goes_as_factors(self):
        found = json.loads(self.run_ok("explain", "job.toml", "--json").stdout)
        rows = found["strategy"]["tables"][0]["rows"]
        self.assertLessEqual({"factors", "overlay"}, {row[1] for row in rows})

    @nightly
    def test_layers_that_leave_one_by_one_make_the_same_model(self):
        for more in [], ["sync.rule=never"]:
            self.assertEqual(self.simulated("sync.wait_free=true", *more)["params_hash"],
                             self.simulated(*more)["params_hash"])

    @nightly
    def test_shares_of_the_backward_pass_are_one_for_each_part(self):
        done = self.longhaul("simulate", "job.toml", "--set", "sync.wait_free=true", "--set",
                             "sync.backward_shares=[0.5]")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("expected 2 shares", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
