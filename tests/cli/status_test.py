#!/usr/bin/env python3
"""longhaul status: what each node does, and what and whom it waits for.

    LONGHAUL=build/release/longhaul tests/cli/status_test.py
"""
import json
import os
import pty
import re
import signal
import subprocess
import time
import unittest

from cli_test import LONGHAUL, PATIENCE_S
from effort import light, nightly
from launch_test import SITES, Case, job_of
from ports import free_addresses


class StatusOfARun(Case):
    def nodes(self, folder):
        done = self.longhaul("status", folder, "--json")
        nodes = [] if done.returncode else json.loads(done.stdout)
        return {node["site"]: node for node in nodes}

    def until(self, what, holds):
        deadline = time.monotonic() + PATIENCE_S
        while not holds(self.nodes("run")):
            self.assertLess(time.monotonic(), deadline, f"{what}: {self.nodes('run')}")
            time.sleep(0.1)
        return self.longhaul("status", "run").stdout

    def test_it_says_whom_a_site_meets_and_that_it_is_gone(self):
        site = self.start("site", "job.toml", "--addresses", free_addresses(3), "--site", "lima",
                          "--out", "run/lima")
        text = self.until("it waits", lambda nodes: "lima" in nodes and
                          nodes["lima"]["state"] == "meeting")
        self.assertRegex(text, r"lima +0/40 .* meeting for tokyo, oslo \(2 of 3\)")
        site.kill()
        site.wait()
        text = self.until("it is gone", lambda nodes: nodes["lima"]["gone"])
        self.assertRegex(text, r"lima .* gone: process \d+ is no more")

    def test_a_terminal_shows_whom_a_site_waits_for(self):
        ours, terminal = pty.openpty()
        site = subprocess.Popen([LONGHAUL, "site", "job.toml", "--addresses", free_addresses(3),
                                 "--site", "lima"], cwd=self.folder, stderr=terminal,
                                env={**os.environ, "TERM": "xterm"})
        os.close(terminal)
        self.addCleanup(os.close, ours)
        self.addCleanup(site.wait)
        self.addCleanup(site.kill)
        shown = ""
        while not re.search(r"waiting for tokyo, oslo \(2 of 3\), [2-9]", shown):
            self.assertIsNone(site.poll(), shown)
            shown += os.read(ours, 4096).decode()
        self.assertNotIn("0/40", shown)

    @nightly
    def test_it_says_who_is_waited_for_and_who_is_gone(self):
        words = ["site", "job.toml", "--addresses", free_addresses(3), "--set",
                 "stop.max_rounds=100000", "--set", "overlay.kind=direct", "--set",
                 f"net.silence_s={PATIENCE_S}"]  # nobody is lost while it is looked at
        sites = {name: self.start(*words, "--site", name, "--out", f"run/{name}")
                 for name in SITES[:2]}
        text = self.until("they meet", lambda nodes: len(nodes) == 2 and all(
            node["state"] == "meeting" and "oslo (1 of 3)" in json.dumps(node)
            for node in nodes.values()))
        self.assertRegex(text, r"tokyo +0/100000 .* meeting for oslo \(1 of 3\)")
        sites["oslo"] = self.start(*words, "--site", "oslo", "--out", "run/oslo")
        self.until("they train", lambda nodes: len(nodes) == 3 and all(
            node["rounds"] > 0 for node in nodes.values()))
        sites["oslo"].send_signal(signal.SIGSTOP)
        text = self.until("they wait", lambda nodes: all(
            nodes[name]["state"] == "waiting" and nodes[name]["silent"] for name in SITES[:2]))
        self.assertRegex(text, r"lima .* waiting for round \d+: \w+ of rank 2 since .*"
                               r"rank 2 \(oslo\) silent for")
        sites["oslo"].kill()
        sites["oslo"].wait()
        text = self.until("one is gone", lambda nodes: nodes["oslo"]["gone"])
        self.assertRegex(text, r"oslo .* gone: process \d+ is no more")

    def test_a_simulated_run_and_folders_that_are_none(self):
        self.write(light(job_of(SITES)))
        self.run_ok("simulate", "job.toml", "--out", "run")
        self.assertRegex(self.run_ok("status", "run").stdout, r"all sites +40/40 +3/3  ended\n")
        self.bad("status", "nowhere", names=["nowhere", "no folder of a run"])
        (self.folder / "empty").mkdir()
        self.bad("status", "empty", names=["empty", "status.json"])
        (self.folder / "run/status.json").write_text("{")
        self.bad("status", "run", names=["run/status.json"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
