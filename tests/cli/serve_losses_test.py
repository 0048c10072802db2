#!/usr/bin/env python3
"""Five sites of longhaul serve over sockets, asked all the while: a site killed while it writes,
its return, a lost verifier, wrong files.

    LONGHAUL=build/release/longhaul tests/cli/serve_losses_test.py

LONGHAUL_ALL=1: 10 objects a second for 60 s; otherwise more in less time.
"""
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGHAUL = pathlib.Path(os.environ.get("LONGHAUL", ROOT / "build/release/longhaul")).resolve()
PATIENCE_S = 120
SITES = "abcde"
RATE, OBJECTS = (10, 600) if os.environ.get("LONGHAUL_ALL") else (300, 1200)
JOB = f"""
job = {{name = "index"}}
net = {{silence_s = 2}}
site = [{", ".join(f'{{name = "{site}"}}' for site in SITES)}]
[focus]
K = 4
T = 0.5
rate = {RATE}
objects = {OBJECTS}
gt_ms = 1
cheap_ms = 0.1
answer_timeout_s = 20
"""


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    for one in sockets:
        one.close()
    return addresses


class ServeLosses(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="longhaul-serve-")
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "job.toml").write_text(JOB)
        self.addresses = free_addresses(len(SITES))
        self.sites = {}

    def tearDown(self):
        for site in SITES:
            self.kill(site)
        self.temporary.cleanup()

    def start(self, site, *more):
        self.sites[site] = subprocess.Popen(
            [LONGHAUL, "serve", "job.toml", "--site", site, "--addresses", self.addresses,
             "--insecure", *more], cwd=self.folder, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)

    def kill(self, site):
        if site in self.sites:
            self.sites[site].kill()
            self.sites.pop(site).communicate()

    def until(self, what, holds):
        end = time.monotonic() + PATIENCE_S
        while True:
            found = holds()
            if found:
                return found
            self.assertLess(time.monotonic(), end, f"{what} does not come about")
            time.sleep(0.05)

    def status(self, site):
        try:
            text = (self.folder / f"runs/index/{site}/api.json").read_text()
            address = json.loads(text)["address"]
            with urllib.request.urlopen(f"http://{address}/status", timeout=5) as reply:
                return json.load(reply)
        except (OSError, ValueError):
            return {}

    def objects(self, site):
        return self.status(site).get("objects", 0)

    def query(self, site, cls, codes=(0, 3), more=()):
        done = subprocess.run([LONGHAUL, "query", "job.toml", str(cls), "--json", "--site", site,
                               *more], cwd=self.folder, text=True, capture_output=True,
                              timeout=PATIENCE_S)
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found = {(line["site"], cluster["cluster"]): cluster["objects"] for line in lines
                 if line["kind"] == "found" for cluster in line["clusters"]}
        return done.returncode, found, lines[-1] if lines else {}

    def test_a_site_killed_while_it_writes_and_its_return(self):
        for site in SITES:
            self.start(site)
        self.until("indexing", lambda: self.objects("a") > 0 and self.objects("e") > OBJECTS / 4)
        code, _, end = self.query("a", 0)
        self.assertEqual((code, end["kind"], end["partial"]), (0, "ended", False))
        self.kill("e")  # in mid-write: it has objects to come
        code, _, end = self.until("a partial answer", lambda: (
            lambda answer: answer if answer[2]["partial"] else None)(self.query("a", 0)))
        self.assertEqual(code, 3)
        self.assertEqual([site["site"] for site in end["missing"]], ["e"])
        acknowledged = end["missing"][0]["asof"]
        self.assertGreater(acknowledged, 0)
        asof = {site["site"]: site["asof"] for site in end["sites"]}
        self.start("e", "--rejoin")
        self.until("its return", lambda: not self.query("b", 1)[2]["partial"])
        self.until("the end of the streams",
                   lambda: all(self.objects(site) == OBJECTS for site in SITES))
        code, found, end = self.query("c", 0)
        self.assertEqual((code, end["partial"]), (0, False))
        for site in end["sites"]:  # none lost, none doubled: every seq once, without gaps
            self.assertEqual((site["asof"], site["gaps_s"]), (OBJECTS, []))
            self.assertGreaterEqual(site["asof"], asof.get(site["site"], acknowledged))
        # The stream is a function of the seed: a site that never crashed has the same clusters.
        again = subprocess.run([LONGHAUL, "simulate", "job.toml", "--json", "--set",
                                f"focus.duration_s={OBJECTS / RATE + 5}"], cwd=self.folder,
                               text=True, capture_output=True, timeout=PATIENCE_S)
        sites = {site["site"]: site for site in json.loads(again.stdout)["sites"]}
        self.assertEqual(self.status("e")["clusters"], sites["e"]["clusters"])
        self.assertTrue(found)

    # What it owes is checked by the sites themselves; it is missing itself unless it had answered.
    def test_a_lost_verifier_does_not_keep_a_query(self):
        job = JOB.replace("gt_ms = 1\n", "gt_ms = 50\ngt_place = \"hub\"\nhub = \"a\"\n"
                          "vote = \"first\"\n").replace("T = 0.5", "T = 0")
        (self.folder / "job.toml").write_text(
            job.replace(f"objects = {OBJECTS}", "objects = 200").replace(f"rate = {RATE}",
                                                                        "rate = 500"))
        for site in SITES:
            self.start(site)
        self.until("indexing", lambda: all(self.objects(site) == 200 for site in SITES))
        asked = subprocess.Popen([LONGHAUL, "query", "job.toml", "0", "--site", "b"],
                                 cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
        self.until("checks", lambda: self.status("a").get("accurate_objects", 0) > 0)
        self.kill("a")
        text, _ = asked.communicate(timeout=PATIENCE_S)
        self.assertIn("ended: ", text)
        self.assertEqual("PARTIAL: a is missing" in text, asked.returncode == 3, text)
        self.assertIn(asked.returncode, (0, 3), text)
        self.assertTrue(any(self.status(site).get("accurate_objects", 0) for site in "bcde"))

    def test_wrong_files_and_a_second_process(self):
        for site in SITES:
            self.start(site)
        self.until("indexing", lambda: self.objects("a") > 0)
        second = subprocess.run(
            [LONGHAUL, "serve", "job.toml", "--site", "a", "--addresses",
             free_addresses(len(SITES)), "--insecure"], cwd=self.folder, text=True,
            capture_output=True, timeout=PATIENCE_S)
        self.assertIn(second.returncode, (2, 3), second.stderr)
        self.assertIn("runs/index/a", second.stderr)
        for site in SITES:
            self.kill(site)
        store = self.folder / "runs/index/a/index.sqlite"
        for file in store.parent.glob("index.sqlite*"):
            file.unlink()
        for broken, part in ((b"no database at all" * 100, "index.sqlite"), (None, "--force")):
            if broken:
                store.write_bytes(broken)
            else:
                store.unlink()
                with sqlite3.connect(store) as other:
                    other.execute("CREATE TABLE x (y)")
            done = subprocess.run(
                [LONGHAUL, "serve", "job.toml", "--site", "a", "--addresses", self.addresses,
                 "--insecure"], cwd=self.folder, text=True, capture_output=True,
                timeout=PATIENCE_S)
            self.assertIn(done.returncode, (2, 3), done.stderr)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
