#!/usr/bin/env python3
"""--view and view: the page of a run under way, its events, and its figures for Prometheus.

    LONGHAUL=build/release/longhaul tests/cli/view_test.py
"""
import json
import re
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

from report_runs import HAS_CHARTS, JOB, LONGHAUL, Runs


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def events(url):
    """The data of every event, as they come, until the server ends the stream."""
    with urllib.request.urlopen(url + "events", timeout=60) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])["runs"]


@unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
class View(Runs):
    def begin(self, *args):
        process = subprocess.Popen([LONGHAUL, *map(str, args)], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_a_run_under_way(self):
        (self.folder / "long.toml").write_text(JOB.replace(
            "max_rounds = 12, target_accuracy = 0.99", "max_rounds = 1000000"))
        process = self.begin("simulate", "long.toml", "--view", 0, "--out", "live")
        url = re.search(r"http://127.0.0.1:\d+/", process.stderr.readline())[0]
        self.assertIn("EventSource", get(url))
        rounds, last = [], None
        for runs in events(url):
            if not runs:
                continue
            last = runs[0]
            rounds.append(last["round"])
            if len(rounds) == 2:
                self.assertIn('longhaul_finished{run="long"} 0', get(url + "metrics"))
                process.send_signal(signal.SIGINT)
        # The stream ends with the run, and its last event is of the end.
        self.assertGreaterEqual(len(rounds), 3)
        self.assertGreater(rounds[1], rounds[0])
        self.assertEqual(last["summary"]["stop_reason"], "interrupted")
        self.assertLessEqual(len(last["scores"]["time_s"]), 2000)
        self.assertEqual(process.wait(60), 130)

    def test_a_finished_run(self):
        process = self.begin("view", "c/fedavg-ring")
        url = re.search(r"http://127.0.0.1:\d+/", process.stdout.readline())[0]
        metrics = get(url + "metrics")
        self.assertIn('longhaul_finished{run="job"} 1', metrics)
        summary = json.loads((self.folder / "c/fedavg-ring/summary.json").read_text())
        bytes_sent = re.search(r"^longhaul_wan_bytes{[^}]*} (\S+)$", metrics, re.M)[1]
        self.assertEqual(float(bytes_sent), summary["wan_bytes"])
        first = next(events(url))[0]
        self.assertEqual(first["summary"], summary)
        self.assertIn("plan_svg", first)
        with self.assertRaises(urllib.error.HTTPError):
            get(url + "etc/passwd")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 0)

    def test_errors(self):
        self.assertIn("neither the folder of a run", self.longhaul("view", "none", code=2).stderr)
        self.assertIn("holds 4 runs", self.longhaul("view", "c", code=2).stderr)
        process = self.begin("view", "c/fedavg-ring")
        port = re.search(r"127.0.0.1:(\d+)", process.stdout.readline())[1]
        done = self.longhaul("simulate", "job.toml", "--view", port, "--out", "x", code=2)
        self.assertIn("cannot be listened to", done.stderr)
        done = self.longhaul("simulate", "job.toml", "--view", 0, "--seeds", 2, code=2)
        self.assertIn("--view shows one training run", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
