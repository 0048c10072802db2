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

from cli_test import LONGHAUL, PATIENCE_S
from effort import GATE, nightly
from live_events import follow
from report_runs import HAS_CHARTS, JOB, Runs


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


@unittest.skipUnless(HAS_CHARTS, "the chart library was not fetched")
class View(Runs):
    if GATE:  # what runs there needs no numbers
        job = JOB.replace('"logistic"', '"phantom", mbytes = 0.04').replace('"synthetic"', '"none"')

    def begin(self, *args):
        process = subprocess.Popen([LONGHAUL, *map(str, args)], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    @nightly
    def test_a_run_under_way(self):
        (self.folder / "long.toml").write_text(JOB.replace(
            "max_rounds = 12, target_accuracy = 0.99", "max_rounds = 1000000"))
        process = self.begin("simulate", "long.toml", "--view", 0, "--out", "live")
        url = re.search(r"http://127.0.0.1:\d+/", process.stderr.readline())[0]
        self.assertIn("EventSource", get(url))
        rounds, kinds, sizes, last = [], [], [], None
        for kind, size, data in follow(url):
            if not data["runs"]:
                continue
            last = data["runs"][0]
            rounds.append(last["round"])
            kinds.append(kind)
            sizes.append(size)
            if len(rounds) == 4:
                self.assertIn('longhaul_finished{run="long"} 0', get(url + "metrics"))
                process.send_signal(signal.SIGINT)
        # The stream ends with the run, and its last event is of the end.
        self.assertGreaterEqual(len(rounds), 5)
        self.assertGreater(rounds[1], rounds[0])
        # After the whole there are changes only, and they come to the same as reading it anew.
        self.assertIn("changes", kinds)
        self.assertLess(min(sizes), max(sizes) / 2)
        self.assertEqual([len(last["scores"][key]) for key in ("loss", "time_s")],
                         2 * [len(last["scores"]["round"])])
        summary = json.loads((self.folder / "live/summary.json").read_text())
        self.assertEqual(last["summary"], summary)
        activity = json.loads((self.folder / "live/activity.json").read_text())
        self.assertEqual(last["activity"], activity)
        self.assertEqual(last["summary"]["stop_reason"], "interrupted")
        self.assertLessEqual(len(last["scores"]["time_s"]), 2000)
        self.assertEqual(process.wait(PATIENCE_S), 130)

    def test_a_finished_run(self):
        process = self.begin("view", "c/fedavg-ring")
        url = re.search(r"http://127.0.0.1:\d+/", process.stdout.readline())[0]
        metrics = get(url + "metrics")
        self.assertIn('longhaul_finished{run="job"} 1', metrics)
        summary = json.loads((self.folder / "c/fedavg-ring/summary.json").read_text())
        bytes_sent = re.search(r"^longhaul_wan_bytes{[^}]*} (\S+)$", metrics, re.M)[1]
        self.assertEqual(float(bytes_sent), summary["wan_bytes"])
        first = next(follow(url))[2]["runs"][0]
        self.assertEqual(first["summary"], summary)
        self.assertIn("plan_svg", first)
        with self.assertRaises(urllib.error.HTTPError):
            get(url + "etc/passwd")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0)

    @nightly
    def test_processes_over_sockets_show_what_each_site_did(self):
        (self.folder / "sockets.toml").write_text(JOB.replace("max_rounds = 12", "max_rounds = 60")
                                                  + "net = {pace = true}\n")
        process = self.begin("launch", "sockets.toml", "--view", 0, "--out", "sockets")
        url = re.search(r"http://127.0.0.1:\d+/", process.stderr.readline())[0]
        live, sent = None, 0
        for _, _, data in follow(url):
            run = data["runs"][0] if data["runs"] else {}
            if run.get("wan_bytes") and not run.get("summary") and not sent:
                metrics = get(url + "metrics")
                sent = float(re.search(r"^longhaul_wan_bytes{[^}]*} (\S+)$", metrics, re.M)[1])
                self.assertGreaterEqual(sent, run["wan_bytes"])
            if run.get("activity") and not run.get("summary"):
                live = run["activity"]
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertGreater(sent, 0)
        self.assertEqual([site["name"] for site in live["sites"]], ["tokyo", "lima", "oslo"])
        self.longhaul("report", "sockets", "--out", "sockets.html")
        page = (self.folder / "sockets.html").read_text()
        run = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])[
            "runs"][0]
        summary = json.loads((self.folder / "sockets/summary.json").read_text())
        computing = [sum(site["computing"]) for site in run["activity"]["sites"]]
        self.assertAlmostEqual(sum(computing) / 3 / summary["time_s"],
                               summary["compute_utilisation"], 1)
        sent = sum(link[2] for link in run["activity"]["links"])
        self.assertGreater(sent, 0.5 * summary["wan_bytes"])  # heads of frames are not counted
        self.assertLessEqual(sent, summary["wan_bytes"])

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
