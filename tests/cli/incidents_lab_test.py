#!/usr/bin/env python3
"""The incidents of examples/incidents over sockets and the emulated WAN, shortened; as root.

    LONGHAUL=build/release/longhaul tests/cli/incidents_lab_test.py

They end as in the simulator, but for what is said here: a process that was cut off or stood still
until the others lost it finds out and rejoins, where the simulator's stays away.
"""
import json
import os
import unittest

import cli_test
from incidents_test import EXPECTED, FOLDER

QUICK = ["net.silence_s=3"]
SHORTENED = {  # rounds, settings
    "cut-at-the-end": (50, []),
    "cut-in-half": (60, [*QUICK, "net.majority_wait_s=10",
                         *(f"fault[{i}].at_s=5" for i in range(6))]),
    "hourly-cut": (120, ["fault[0].at_s=5", "fault[1].at_s=20"]),
    "large-update": (3, QUICK + ["wan.wire_scale=20"]),
    "late-start": (100, ["fault[0].restart_s=20", "fault[1].restart_s=22"]),
    "one-of-two": (60, QUICK + ["fault[0].at_s=5"]),
    "server-and-next-lost": (100, QUICK),
    "server-lost": (0, QUICK),
    "slow-site": (40, []),
    "standstill": (60, ["fault[0].at_s=5"]),
    "storm": (450, QUICK + ["fault[0].at_s=5", "fault[1].at_s=15", "fault[1].for_s=10",
                            "fault[1].restart_s=12", "fault[2].at_s=35", "fault[3].at_s=50",
                            "fault[3].for_s=10", "fault[3].restart_s=12", "fault[4].at_s=70"]),
    "two-lost": (90, QUICK + ["fault[0].at_s=5", "fault[1].at_s=20"]),
    "vpn-away": (120, QUICK + ["fault[0].at_s=5", "fault[0].for_s=15"])}
ELSE = {"vpn-away": {"live": 5, "says": ["the run goes on with 4 of 5 nodes",
                                         "the run goes on with 5 of 5 nodes"]}}


@unittest.skipIf(os.geteuid() != 0, "the emulated WAN needs root")
class Incidents(cli_test.Case):
    def end_as_expected(self, name):
        rounds, settings = SHORTENED[name]
        expected = {**EXPECTED[name], **ELSE.get(name, {})}
        if rounds and expected["stop_reason"] == "max_rounds":
            settings = [*settings, f"stop.max_rounds={rounds}"]
        sets = [word for one in settings for word in ("--set", one)]
        more = ["--max-restarts", "0"] if name.startswith("server") else []
        done = self.longhaul("launch", FOLDER / f"{name}.toml", "--lab", "--json", "--out", "run",
                             "--set", "net.pace=true", *more, *sets, timeout=300)
        self.assertEqual(done.returncode, expected["exit_code"], done.stderr)
        summary = json.loads(done.stdout)
        for key in ("stop_reason", "members", "live"):
            self.assertEqual(summary[key], expected[key], (key, done.stderr))
        for text in expected.get("says", []):
            self.assertIn(text, done.stderr + summary.get("failure", ""))
        self.assertGreaterEqual(summary["rounds"], rounds, done.stderr)


def add(name):
    setattr(Incidents, f"test_{name.replace('-', '_')}",
            lambda self: self.end_as_expected(name))


for incident in EXPECTED:
    add(incident)


if __name__ == "__main__":
    unittest.main(verbosity=2)
