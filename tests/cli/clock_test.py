#!/usr/bin/env python3
"""The clock of one site jumps, by a day ahead and two back: nobody is lost, no bit changes.

    SHIFTED_CLOCK=build/release/tests/libshifted_clock.so LONGHAUL=build/release/longhaul \
        tests/cli/clock_test.py
"""
import json
import os
import re
import struct
import time
import unittest

from cli_test import PATIENCE_S
from launch_test import PACED, SITES, Case
from ports import free_addresses

DAY_S = 24 * 3600


class Clock(Case):
    def setUp(self):
        super().setUp()
        self.shift = self.folder / "shift"
        self.shift.write_bytes(struct.pack("q", 0))

    def jump_to(self, seconds):
        with self.shift.open("r+b") as file:
            file.write(struct.pack("q", seconds))

    def until_round(self, lima, least):
        end, metrics = time.monotonic() + PATIENCE_S, self.folder / "lima" / "metrics.jsonl"
        newest = -1
        while newest < least:
            self.assertIsNone(lima.poll(), self.said(lima))
            self.assertLess(time.monotonic(), end, self.said(lima))
            time.sleep(0.05)
            text = metrics.read_text() if metrics.exists() else ""
            newest = max(map(int, re.findall(r'"round":(\d+),', text)), default=-1)

    def test_a_clock_that_jumps_changes_nothing(self):
        addresses, rounds = free_addresses(len(SITES)), ["--set", "stop.max_rounds=1000"]
        moved = {"LD_PRELOAD": os.environ["SHIFTED_CLOCK"], "SHIFT_FILE": str(self.shift)}
        sites = {name: self.start("site", "job.toml", "--site", name, "--addresses", addresses,
                                  "--out", name, *PACED, *rounds,
                                  env=moved if name == "lima" else None) for name in SITES}
        for seconds, at in ((DAY_S, 1), (-DAY_S, 200)):
            self.until_round(sites["lima"], at)
            self.jump_to(seconds)
        for name, site in sites.items():
            code, text = self.end(site)
            self.assertEqual(code, 0, f"{name}: {text}")
            self.assertNotIn("lost", text)
        ends = [self.summary(name) for name in SITES]
        self.assertEqual({one["params_hash"] for one in ends}, {self.simulated_hash(*rounds)})
        self.assertLess(max(one["time_s"] for one in ends), DAY_S)
        # Its clock did jump: the others' logs are of today.
        written = json.loads((self.folder / "lima" / "status.json").read_text())["written_s"]
        self.assertLess(written, time.time() - DAY_S / 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
