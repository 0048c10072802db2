#!/usr/bin/env python3
"""Sites of a real run killed at random moments, over the overlays that form an agreed mean.

    LONGHAUL=build/release/longhaul tests/cli/kills_test.py
    LONGHAUL_ALL=1 ...     50 kills instead of one for each overlay, with a line for each
"""
import json
import os
import random
import shutil
import signal
import time
import unittest

import cli_test
import launch_test
from launch_test import ALL

SITES = ["tokyo", "lima", "oslo", "paris", "cairo"]
OVERLAYS = ["hub", "ring", "tsengine", "hierarchical", "forest"]
ROUNDS = 200
SEED = 17
# 200 kB a model: most of a round is the exchange, so that most kills are in the middle of one.
SETS = ["--set", "model.kind=mlp", "--set", "model.hidden=[512]", "--set", "data.features=96",
        "--set", "sync.kind=bsp", "--set", f"stop.max_rounds={ROUNDS}",
        "--set", "net.pace=true", "--set", "site.*.step_ms=15",  # for 3 s on any machine
        *launch_test.LOSE,
        "--set", "report.every_rounds=10", "--set", "transfer.chunk_kib=8"]


class Kills(launch_test.Case):
    def setUp(self):
        super().setUp()
        self.write(launch_test.job_of(SITES))

    def kill_one(self, overlay, victim, wait_s):
        """The launch's exit code, what it said, and the summaries of the others."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)  # checkpoints of the run before
        launch = self.start("launch", "job.toml", *SETS, *launch_test.GONE, "--set",
                            f"overlay.kind={overlay}")
        self.until_checkpoints(launch, SITES)
        sites = self.sites_of(launch)
        self.assertEqual(sorted(sites), sorted(SITES))
        time.sleep(wait_s)
        os.kill(sites.pop(victim), signal.SIGKILL)
        code, text = self.all_end(launch, sites)
        done = []
        for name in SITES:
            path = self.folder / f"runs/small/{name}/summary.json"
            if name != victim and path.exists():
                done.append(json.loads(path.read_text()))
        return code, text, done

    def test_survivors_agree_whenever_one_is_killed(self):
        chance = random.Random(SEED)
        kills, in_time = 50 if ALL else len(OVERLAYS), 0
        for number in range(kills):
            overlay, victim = OVERLAYS[number % len(OVERLAYS)], chance.choice(SITES)
            wait_s = chance.uniform(0, 0.8)
            with self.subTest(number=number, overlay=overlay, victim=victim, wait_s=wait_s):
                code, text, done = self.kill_one(overlay, victim, wait_s)
                self.assertEqual(code, 0, text)
                self.assertEqual(len(done), len(SITES) - 1, text)
                self.assertEqual({one["rounds"] for one in done}, {ROUNDS}, text)
                self.assertEqual(len({one["params_hash"] for one in done}), 1, text)
                in_time += "lost contact" in text
                if ALL:
                    print(f"{overlay}, {victim} killed after {wait_s:.2f} s: "
                          f"{'the others went on' if 'lost contact' in text else 'too late'}",
                          flush=True)
        self.assertGreaterEqual(in_time, 0.8 * kills, "most kills are to be before the end")


if __name__ == "__main__":
    unittest.main(verbosity=2)
