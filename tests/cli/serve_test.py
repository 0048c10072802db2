#!/usr/bin/env python3
"""longhaul serve and query as a user runs them: answers, a killed site, a restart.

    LONGHAUL=build/release/longhaul tests/cli/serve_test.py
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGHAUL = pathlib.Path(os.environ.get("LONGHAUL", ROOT / "build/release/longhaul")).resolve()
PATIENCE_S = 60
JOB = """
job = {name = "index"}
net = {silence_s = 2}
site = [{name = "a"}, {name = "b"}, {name = "c"}]
[focus]
K = 4
T = 0.5
rate = 2000
objects = 1200
gt_ms = 1
cheap_ms = 0.1
[[focus.query]]
class = 0
at_s = 5
"""


class Serve(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-serve-")
        self.path = pathlib.Path(self.folder.name)
        (self.path / "job.toml").write_text(JOB)
        self.serving = []

    def tearDown(self):
        for process in self.serving:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
        self.folder.cleanup()

    def start(self):
        process = subprocess.Popen([LONGHAUL, "serve", "job.toml"], cwd=self.path, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.serving.append(process)
        self.until(lambda: all(self.status(site).get("objects") == 1200 for site in "abc"))
        return process

    def run_it(self, *words):
        return subprocess.run([LONGHAUL, *words], cwd=self.path, text=True, capture_output=True,
                              timeout=PATIENCE_S)

    def until(self, holds):
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), end, "it does not come about")
            time.sleep(0.05)

    def status(self, site):
        import urllib.request
        try:
            address = json.loads((self.path / f"runs/index/{site}/api.json").read_text())["address"]
            with urllib.request.urlopen(f"http://{address}/status", timeout=5) as reply:
                return json.load(reply)
        except (OSError, ValueError):
            return {}

    def answers(self, *words, code=0):
        done = self.run_it("query", "job.toml", "0", "--json", *words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found = {(line["site"], cluster["cluster"]) for line in lines if line["kind"] == "found"
                 for cluster in line["clusters"]}
        return found, lines[-1]

    def pid_of(self, site):
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                words = (folder / "cmdline").read_text().split("\0")
                if "--site" in words and words[words.index("--site") + 1] == site and \
                        (folder / "cwd").resolve() == self.path.resolve():
                    return int(folder.name)
            except OSError:
                pass
        return self.fail(f"{site} does not run")

    def test_answers_a_killed_site_and_a_restart(self):
        simulated = self.run_it("simulate", "job.toml", "--json")
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        query = json.loads(simulated.stdout)["queries"][0]
        serving = self.start()
        first, end = self.answers()
        self.assertEqual(len(first), query["clusters"])  # the simulator's index is the same
        self.assertEqual(sum(site["checked"] for site in end["sites"]), query["checked"])
        self.assertFalse(end["partial"])
        again, end = self.answers("--site", "b")
        self.assertEqual(again, first)
        self.assertEqual(sum(site["checked"] for site in end["sites"]), 0)
        some, end = self.answers("--limit", "1")
        self.assertEqual(len(some), 1)
        self.assertTrue(end["limited"])

        os.kill(self.pid_of("c"), signal.SIGKILL)
        rest, end = self.answers(code=3)
        self.assertEqual(rest, {one for one in first if one[0] != "c"})
        self.assertEqual([site["site"] for site in end["missing"]], ["c"])
        self.assertEqual(end["missing"][0]["asof"], 1200)

        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=PATIENCE_S)
        self.serving.remove(serving)
        self.start()
        third, end = self.answers()  # from the logs: verdicts, too
        self.assertEqual(third, first)
        self.assertEqual(sum(site["checked"] for site in end["sites"]), 0)

    def give(self, text, *words, code=0):
        (self.path / "model.txt").write_text(text)
        done = self.run_it("model", "job.toml", "--file", "model.txt", *words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_model_given_while_it_serves(self):
        serving = self.start()
        text = self.give("noise = 0\n", "--classes", "5,0,2", "--K", "1")
        for site in "abc":
            self.assertIn(f"{site} has model 1\n", text)
            self.until(lambda site=site: [self.status(site).get(key) for key in (
                "model", "indexes_with")] == [1, 1])  # it is of the last tick
        self.assertIn("expected a file that says noise = N", self.give("a picture", code=2))
        self.assertIn("expected 0 to 99", self.give("noise = 0", "--classes", "100", code=2))
        self.assertIn("no site serves", self.give("noise = 0", "--out", "elsewhere", code=3))
        os.kill(self.pid_of("c"), signal.SIGKILL)
        text = self.give("noise = 1", "--site", "b", code=3)
        self.assertIn("b has model 2\n", text)
        self.assertIn("PARTIAL: c is missing", text)
        first, _ = self.answers(code=3)
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=PATIENCE_S)
        self.serving.remove(serving)
        self.start()
        self.until(lambda: self.status("c")["indexes_with"] == 2)  # it asked for the newest
        again, end = self.answers()
        self.assertEqual({one for one in again if one[0] != "c"}, first)
        self.assertFalse(end["partial"])

    def test_verdicts_of_another_accurate_model_are_void(self):
        serving = self.start()
        first, end = self.answers()
        checked = sum(site["checked"] for site in end["sites"])
        self.assertGreater(checked, 0)
        for version, expected in ((1, 0), (2, checked), (2, 0)):
            serving.send_signal(signal.SIGTERM)
            serving.communicate(timeout=PATIENCE_S)
            self.serving.remove(serving)
            (self.path / "job.toml").write_text(
                JOB.replace("K = 4", f"K = 4\ngt_version = {version}"))
            serving = self.start()
            again, end = self.answers()
            self.assertEqual(again, first)
            self.assertEqual(sum(site["checked"] for site in end["sites"]), expected)

    # Nothing may be written any more when it ends; the checkpoint of the end is the last write.
    def test_a_last_write_that_fails_is_said(self):
        (self.path / "job.toml").write_text(JOB.replace(', {name = "b"}, {name = "c"}', ""))
        process = subprocess.Popen([LONGHAUL, "serve", "job.toml", "--site", "a", "--addresses",
                                    "127.0.0.1:0", "--insecure"], cwd=self.path, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   restore_signals=False)  # SIGXFSZ stays ignored
        self.serving.append(process)
        self.until(lambda: self.status("a").get("acknowledged") == 1200)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=PATIENCE_S)
        self.serving.remove(process)
        self.assertEqual(process.returncode, 3, text)
        self.assertIn("index.sqlite: cannot", text)

    def test_errors_name_what_is_wrong(self):
        for words, code, part in ((("query", "job.toml", "0"), 3, "no site serves"),
                                  (("query", "job.toml", "0", "--from", "5", "--to", "1"), 2,
                                   "--from"),
                                  (("serve", "job.toml", "--site", "d"), 2, "no such site"),
                                  (("serve", "job.toml", "--rejoin"), 2, "--rejoin"),
                                  (("launch", "job.toml"), 2, "[focus]"),
                                  (("simulate", "job.toml", "--set", "sync.kind=bsp"), 2,
                                   "[sync] kind"),
                                  (("simulate", "job.toml", "--set", "focus.KK=1"), 2, "KK"),
                                  (("simulate", "job.toml", "--set", "focus.query[0].class=100"), 2,
                                   "class")):
            with self.subTest(words=words):
                done = self.run_it(*words)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
