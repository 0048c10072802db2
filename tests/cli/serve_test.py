#!/usr/bin/env python3
"""longhaul serve and query as a user runs them: answers, a killed site, a restart.

    LONGHAUL=build/release/longhaul tests/cli/serve_test.py
"""
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cli_test import LONGHAUL, PATIENCE_S
from effort import nightly

JOB = """
job = {name = "index"}
net = {silence_s = 6}
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
            with urllib.request.urlopen(f"http://{address}/status", timeout=PATIENCE_S) as reply:
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

    @nightly
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

    @nightly
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
        self.until(lambda: self.status("c").get("indexes_with") == 2)  # it asked for the newest
        again, end = self.answers()
        self.assertEqual({one for one in again if one[0] != "c"}, first)
        self.assertFalse(end["partial"])

    @nightly
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
    @nightly
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

    def alone(self, addresses="127.0.0.1:0", **more):
        return subprocess.Popen([LONGHAUL, "serve", "job.toml", "--site", "a", "--addresses",
                                 addresses, "--insecure"], cwd=self.path, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)

    # The store can no longer be written: the write fails, whatever was said of the signal for it.
    # Another process continues with all that was acknowledged.
    @nightly
    def test_a_store_that_is_full(self):
        (self.path / "job.toml").write_text(  # the stream lasts for 6 s
            JOB.replace(', {name = "b"}, {name = "c"}', "").replace("rate = 2000", "rate = 200"))
        for restore_signals in (False, True):
            with self.subTest(restore_signals=restore_signals):
                process = self.alone(restore_signals=restore_signals)
                self.serving.append(process)
                self.until(lambda: self.status("a").get("acknowledged", 0) > 200)
                size = (self.path / "runs/index/a/index.sqlite-wal").stat().st_size
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE,
                                 (size + 5000, resource.RLIM_INFINITY))
                acknowledged = self.status("a").get("acknowledged", 0)
                text, _ = process.communicate(timeout=PATIENCE_S)
                self.serving.remove(process)
                self.assertEqual(process.returncode, 3, text)
                self.assertIn("index.sqlite: cannot", text)
                self.assertIn("what was stored is continued", text)
                process = self.alone()
                self.serving.append(process)
                self.until(lambda: self.status("a").get("acknowledged") == 1200)
                process.send_signal(signal.SIGTERM)
                text, _ = process.communicate(timeout=PATIENCE_S)
                self.serving.remove(process)
                continued = re.search(r"continues an index of (\d+) objects", text)
                self.assertGreaterEqual(int(continued[1]), acknowledged)
                self.assertIn("1200 objects in", text)  # none twice
                shutil.rmtree(self.path / "runs")

    @nightly
    def test_an_index_of_another_site_is_refused(self):
        serving = self.start()
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=PATIENCE_S)
        self.serving.remove(serving)
        shutil.copy(self.path / "runs/index/b/index.sqlite", self.path / "runs/index/a")
        process = self.alone("127.0.0.1:0,127.0.0.1:9,127.0.0.1:9")
        text, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 2, text)
        self.assertIn("is of site b, stream tracks of seed 1, not of site a", text)

    def token(self):
        return (self.path / "runs/index/a/api.token").read_text().strip()

    def ask(self, method, path, headers=None):
        address = json.loads((self.path / "runs/index/a/api.json").read_text())["address"]
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        if headers is None:
            headers = {"Authorization": f"Bearer {self.token()}"}
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text

    def test_bad_requests_are_refused_with_a_reason(self):
        self.start()
        for path, part in (("/query", "class: missing"), ("/query?class=x", "whole number"),
                           ("/query?class=", "whole number"), ("/query?class=0.5", "whole number"),
                           ("/query?class=-1", "from 0"), ("/query?class=nan", "whole number"),
                           ("/query?class=0&class=1", "given twice"),
                           ("/query?class=0&klass=1", "klass: unknown"),
                           ("/query?class=0&limit=1.5", "whole number"),
                           ("/query?class=0&follow=2", "from 0 to 1"),
                           ("/query?class=0&from=5&to=1", "not after to"),
                           ("/query?class=0&from=%205", "from: expected")):
            with self.subTest(path=path):
                status, text = self.ask("GET", path)
                self.assertEqual(status, 400)
                answer = json.loads(text)
                self.assertEqual(answer["kind"], "refused")
                self.assertIn(part, answer["why"])
        self.assertIn("expected 0 to 99", self.ask("GET", "/query?class=100")[1])
        for method, path in (("GET", "/"), ("POST", "/query?class=0"), ("GET", "/model")):
            status, text = self.ask(method, path)
            self.assertEqual((status, json.loads(text)["kind"]), (404, "refused"))
        self.assertEqual(self.ask("POST", "/model?K=0.5")[0], 400)
        # Only who may read the site's folder may give it something; all may ask.
        self.assertEqual((self.path / "runs/index/a/api.token").stat().st_mode & 0o777, 0o600)
        for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": self.token()},
                        {"Authorization": f"Bearer {self.token()[:-1]}x"},
                        {"Authorization": f"Basic {self.token()}"}):
            for method, path in (("POST", "/model"), ("POST", "/query"), ("PUT", "/model")):
                status, text = self.ask(method, path, headers)
                self.assertEqual((status, json.loads(text)["kind"]), (401, "refused"))
                self.assertIn("api.token", text)
        self.assertEqual(self.ask("GET", "/status", {})[0], 200)
        # A page of another site, in a browser of this machine.
        for headers in ({"Host": "example.org"}, {"Origin": "http://example.org"},
                        {"Origin": "null"}):
            for method, path in (("GET", "/query?class=0"), ("POST", "/model"), ("GET", "/status")):
                status, text = self.ask(method, path, headers)
                self.assertEqual(status, 403, text)
        status, text = self.ask("GET", "/query?class=0", {"Origin": "http://localhost:8080"})
        self.assertEqual((status, json.loads(text.splitlines()[-1])["kind"]), (200, "ended"))

    # Answers that go on leave room for others, to be refused too; who goes away makes room.
    @nightly
    def test_too_many_answers_at_a_time(self):
        self.start()
        address = json.loads((self.path / "runs/index/a/api.json").read_text())["address"]
        open_ones = []
        for _ in range(32):
            connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
            connection.request("GET", "/query?class=0&follow=1")
            open_ones.append((connection, connection.getresponse()))
        for _, reply in open_ones:
            while json.loads(reply.readline())["kind"] != "caught_up":
                pass
        status, text = self.ask("GET", "/query?class=0")
        self.assertEqual(status, 503)
        self.assertIn("32 answers of this site go on", json.loads(text)["why"])
        self.until(lambda: self.status("c").get("open_queries") == 32)
        for connection, reply in open_ones:
            reply.close()
            connection.close()
        self.until(lambda: self.ask("GET", "/query?class=0")[0] == 200)
        self.until(lambda: self.status("c").get("open_queries") == 0)

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
