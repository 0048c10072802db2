#!/usr/bin/env python3
"""Lanes of shadowsync on threads of their own, over sockets: docs/sync/shadowsync.md.

    LONGHAUL=build/release/longhaul tests/cli/lanes_test.py
"""
import json
import os
import pathlib
import shutil
import signal
import unittest

import launch_test
from launch_test import LONG, LOSE, GONE, PACED, SITES, SLOWER

LANES = ["--set", "sync.kind=shadowsync", "--set", "sync.lanes=2", "--set",
         "sync.lane_threads=true"]
ALGORITHMS = ["ma", "bmuf", "easgd"]


class Lanes(launch_test.Case):
    def tasks(self, launch):
        return {name: len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))
                for name, pid in self.sites_of(launch).items()}

    def interrupted(self, *sets):
        """A run that is under way at all sites, and its threads, after Ctrl-C."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        launch = self.start("launch", "job.toml", *LONG, *PACED, *LANES, *sets)
        self.until_checkpoints(launch, SITES)
        tasks = self.tasks(launch)
        launch.send_signal(signal.SIGINT)
        code, text = self.end(launch)
        self.assertEqual(code, 130, text)
        return tasks

    def test_a_run_reaches_its_target(self):
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm=algorithm):
                self.says("launch", "job.toml", "--quiet", "--force", *LONG, *LANES, "--set",
                          f"sync.algorithm={algorithm}", "--set", "stop.target_accuracy=0.6",
                          "--set", "report.every_rounds=5")
                self.assertEqual(self.summary()["stop_reason"], "target")

    def test_the_others_go_on_without_a_site_that_is_killed(self):
        for algorithm in ALGORITHMS[1:]:
            with self.subTest(algorithm=algorithm):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                launch = self.start("launch", "job.toml", *LANES, *SLOWER, *LOSE, *GONE, "--set",
                                    f"sync.algorithm={algorithm}", "--set", "stop.max_rounds=400")
                self.until_checkpoints(launch, ["lima"])
                sites = self.sites_of(launch)
                os.kill(sites.pop("lima"), signal.SIGKILL)
                code, text = self.all_end(launch, sites)
                self.assertEqual(code, 0, text)
                self.assertIn("(lima)", text, "it was killed too late")
                done = [self.summary(f"runs/small/{name}") for name in SITES if name != "lima"]
                self.assertEqual([one["rounds"] for one in done], [400, 400], text)
                self.assertEqual(len({one["params_hash"] for one in done}), 1)

    def test_each_lane_is_a_thread_and_a_stopped_run_resumes(self):
        two, seven = self.interrupted(), self.interrupted("--set", "sync.lanes=7")
        self.assertEqual({name: seven[name] - two[name] for name in SITES},
                         {name: 5 for name in SITES})
        status = [json.loads((self.folder / f"runs/small/{name}/status.json").read_text())
                  for name in SITES]
        more = max(one["rounds"] for one in status) + 60
        self.says("launch", "job.toml", "--resume", *LONG, *PACED, *LANES, "--set",
                  "sync.lanes=7", "--set", f"stop.max_rounds={more}")
        self.assertEqual(self.summary()["rounds"], more)

    def test_what_cannot_be_done_is_refused(self):
        for sets, reason in (
                (["--set", "sync.mode=foreground", "--set", "sync.algorithm=easgd"],
                 "lane_threads: expected false with mode"),
                (["--record=full"], "cannot be replayed"),
                (["--set", "sync.lanes=200", "--set", "data.samples=300"],
                 "lanes: expected at most")):
            with self.subTest(reason=reason):
                launch = self.start("launch", "job.toml", "--force", *LANES, *sets)
                code, text = self.end(launch)
                self.assertNotEqual(code, 0)
                self.assertIn(reason, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
