#!/usr/bin/env python3
"""The incidents of examples/incidents, in the simulator: each ends as expected.json says.

    LONGHAUL=build/release/longhaul tests/cli/incidents_test.py
"""
import json
import pathlib
import re
import unittest

import cli_test
from effort import GATE, nightly

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/incidents"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
# A model of the size that theirs have, without numbers.
PHANTOM = '[model]\nkind = "phantom"\nmbytes = 0.0034\n'
IN_GATE = {"cut-in-half": PHANTOM, "large-update": PHANTOM, "one-of-two": PHANTOM,
           "server-lost": PHANTOM, "server-and-next-lost": None}


class Incidents(cli_test.Case):
    def run_one(self, name, model=None):
        job = FOLDER / f"{name}.toml"
        if model:
            text = re.sub(r"\[model\]\n.*?(?=\n\[(?!model|data))", model, job.read_text(),
                          flags=re.S)
            job = self.write(text, job.name)
        done = self.longhaul("simulate", job, "--json", "--force")
        return done, json.loads(done.stdout)

    def test_every_incident_ends_as_expected(self):
        self.assertEqual(sorted(path.stem for path in FOLDER.glob("*.toml")), sorted(EXPECTED))
        for name, model in IN_GATE.items() if GATE else dict.fromkeys(EXPECTED).items():
            with self.subTest(incident=name):
                expected = EXPECTED[name]
                done, summary = self.run_one(name, model)
                self.assertEqual(done.returncode, expected["exit_code"], done.stderr)
                for key in ("stop_reason", "members", "live"):
                    self.assertEqual(summary[key], expected[key], (key, done.stderr))
                for text in expected.get("says", []):
                    self.assertIn(text, done.stderr + summary.get("failure", ""))
                self.assertGreaterEqual(summary["rounds"], expected["rounds"])

    @nightly
    def test_a_cut_that_is_shorter_than_the_patience_changes_no_bit(self):
        _, cut = self.run_one("hourly-cut")
        text = (FOLDER / "hourly-cut.toml").read_text()
        without = text[:text.index("[[fault]]")] + text[text.index("[[site]]"):]
        job = self.write(without)
        plain = json.loads(self.run_ok("simulate", job, "--json", "--out", "plain").stdout)
        self.assertEqual(cut["params_hash"], plain["params_hash"])
        self.assertGreater(cut["time_s"], plain["time_s"] + 9)

    @nightly
    def test_participation_counts_on_when_the_first_site_is_lost(self):
        text = (FOLDER / "two-lost.toml").read_text()
        text = text[:text.index("[[fault]]")] + text[text.index("[[site]]"):]
        lima = [f'[[fault]]\nkind = "crash"\nsite = "lima"\nat_s = {at}\nrestart_s = {at + 15}\n'
                for at in (5, 45)]
        virginia = '[[fault]]\nkind = "crash"\nsite = "virginia"\nat_s = 30\n'
        left_out = []
        for faults in (lima[0] + virginia, lima[0] + virginia + lima[1]):
            done = self.run_ok("simulate", self.write(text + faults), "--json", "--force")
            summary = json.loads(done.stdout)
            left_out.append((1 - summary["participation_of_live"]) * summary["rounds"])
        self.assertGreater(left_out[0], 0)
        self.assertGreater(left_out[1], left_out[0] + 0.1)

    def test_faults_are_checked_and_for_the_simulator_alone(self):
        job = self.write((FOLDER / "two-lost.toml").read_text())
        self.bad("simulate", job, "--set", "fault[0].site=limaa", names=["[fault[0]] site", "lima"])
        self.bad("simulate", job, "--set", "fault[0].for_s=3", names=["[fault[0]] for_s"])
        self.bad("site", job, "--site", "tokyo", "--base-port", "20000",
                 names=["[[fault]]: in the simulator and the emulated WAN alone"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
