#!/usr/bin/env python3
"""Five sites of longhaul serve over sockets, asked all the while: a site killed while it writes,
its return, a lost verifier, wrong files.

    LONGHAUL=build/release/longhaul tests/cli/serve_losses_test.py

LONGHAUL_ALL=1: 10 objects a second for 60 s, three times killed; otherwise more in less time.
"""
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from cli_test import LONGHAUL, PATIENCE_S
from ports import free_addresses

# A shell that starts this in the background has it ignored, by the programs started here, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
SITES = "abcde"
RATE, OBJECTS, KILLS = (10, 600, 3) if os.environ.get("LONGHAUL_ALL") else (300, 1200, 1)
JOB = f"""
job = {{name = "index"}}
net = {{silence_s = 6}}
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


def logged_items(record):
    """The objects of a record of the log (longhaul/focus/log.h), in which no model is."""
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, record, at)
        at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def take_list(form):
        return [take(form) for _ in range(take("I"))]

    assert take("I") == 0 and take("I") == 0  # models, adopted parameters
    take_list("Qqq")  # gaps
    for _ in range(take("I")):
        seq, at_ns = take("Qq")
        feature, _, cluster = tuple(take_list("H")), take_list("f"), take("Q")
        take_list("f")
        yield seq, at_ns, feature, cluster


Answered = collections.namedtuple("Answered", "begun ended missing")


class Asking(threading.Thread):
    """Asks the sites a to d for one class after the other, all the while."""

    def __init__(self, test):
        super().__init__(daemon=True)
        self.addresses = [json.loads((test.folder / f"runs/index/{site}/api.json").read_text())[
            "address"] for site in SITES[:-1]]
        self.answers, self.error, self.stops = [], None, threading.Event()

    def run(self):
        try:
            while not self.stops.is_set():
                number, begun = len(self.answers), time.monotonic()
                url = f"http://{self.addresses[number % 4]}/query?class={number % 20}"
                with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
                    last = json.loads(reply.read().splitlines()[-1])
                if last["kind"] != "ended" or last["partial"] != bool(last["missing"]):
                    raise ValueError(str(last))
                self.answers.append(Answered(begun, time.monotonic(), tuple(
                    site["site"] for site in last["missing"])))
        except (OSError, ValueError, KeyError, IndexError) as error:
            self.error = error

    def stop(self):
        self.stops.set()
        self.join()
        if self.error:
            raise self.error


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
            with urllib.request.urlopen(f"http://{address}/status", timeout=PATIENCE_S) as reply:
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
        self.until("indexing", lambda: all(self.objects(site) > 0 for site in SITES))
        asking = Asking(self)
        asking.start()
        for kill in range(1, KILLS + 1):
            acknowledged = self.until("objects", lambda: (lambda seen: seen if seen > (
                kill * OBJECTS // (2 * KILLS + 2)) else 0)(self.status("e").get("acknowledged", 0)))
            self.kill("e")  # in mid-write: it has objects to come
            killed = time.monotonic()
            code, _, end = self.until("a partial answer", lambda: (
                lambda answer: answer if answer[2]["partial"] else None)(self.query("a", 0)))
            self.assertEqual(code, 3)
            self.assertEqual([site["site"] for site in end["missing"]], ["e"])
            self.assertGreater(end["missing"][0]["asof"], 0)
            stored = self.logged("e")
            self.assertGreaterEqual(len(stored), acknowledged)  # none of these is lost
            asked = time.monotonic()
            self.start("e", "--rejoin")
            self.until("its return", lambda: not self.query("b", 1)[2]["partial"])
            while_lost = [one for one in asking.answers
                          if killed <= one.begun and one.ended < asked]
            self.assertTrue(while_lost)
            self.assertEqual({one.missing for one in while_lost}, {("e",)})
        self.until("the end of the streams",
                   lambda: all(self.objects(site) == OBJECTS for site in SITES))
        self.until("fifty answers", lambda: len(asking.answers) > 50 or asking.error)
        asking.stop()
        self.assertLessEqual({one.missing for one in asking.answers}, {(), ("e",)})
        code, found, end = self.query("c", 0)
        self.assertEqual((code, end["partial"]), (0, False))
        self.assertTrue(found)
        for site in end["sites"]:
            self.assertEqual((site["asof"], site["gaps_s"]), (OBJECTS, []))
        self.assertTrue(all(self.status(site)["acknowledged"] == OBJECTS for site in SITES))
        for site in SITES:
            self.kill(site)  # the logs stay as they are
        logs = {site: self.logged(site) for site in SITES}
        self.compare_with_the_streams(logs)

    # Object by object: each is there once, as another run of the same seed has it that nothing
    # disturbed. Streams are functions of seed and number; the rate says the time alone.
    def compare_with_the_streams(self, logs):
        rate = 20 * RATE
        shutil.move(self.folder / "runs", self.folder / "disturbed")
        (self.folder / "job.toml").write_text(JOB.replace(f"rate = {RATE}\n", f"rate = {rate}\n"))
        for site in SITES:
            self.start(site)
        self.until("the streams", lambda: all(self.status(site).get("acknowledged") == OBJECTS
                                              for site in SITES))
        for site in SITES:
            self.kill(site)
        for site in SITES:
            alone, seen = self.logged(site), logs[site]
            self.assertEqual(sorted(seen), list(range(1, OBJECTS + 1)))
            for seq, (at_ns, feature, cluster) in seen.items():
                self.assertEqual((feature, cluster), alone[seq][1:], f"object {seq} of {site}")
                self.assertAlmostEqual(at_ns / 1e9, (seq - 1) / RATE, delta=1e-6)

    # What the log of a site that was killed holds: by number of the object its time, feature and
    # cluster. A number that is there twice fails.
    def logged(self, site):
        with tempfile.TemporaryDirectory(prefix="longhaul-serve-") as copy:
            for file in (self.folder / f"runs/index/{site}").glob("index.sqlite*"):
                shutil.copy(file, copy)
            with contextlib.closing(sqlite3.connect(f"{copy}/index.sqlite")) as store:
                self.assertEqual(store.execute("SELECT count(*) FROM checkpoint").fetchone(), (0,))
                records = store.execute("SELECT record FROM log ORDER BY number").fetchall()
        objects = {}
        for (record,) in records:
            for seq, *rest in logged_items(record):
                self.assertNotIn(seq, objects)
                objects[seq] = tuple(rest)
        return objects

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

    # A verifier that is neither lost nor heard: sites check by themselves, and say that they are at
    # work, since a batch takes longer than a site may be silent. Then it is asked again.
    def test_a_silent_verifier_does_not_keep_a_query(self):
        job = JOB.replace("gt_ms = 1\n", "gt_ms = 100\ngt_place = \"hub\"\nhub = \"a\"\n"
                          "vote = \"first\"\n").replace("T = 0.5", "T = 0")
        (self.folder / "job.toml").write_text(
            job.replace(f"objects = {OBJECTS}", "objects = 100").replace(f"rate = {RATE}",
                                                                        "rate = 500").replace(
                "silence_s = 6", "silence_s = 100").replace("answer_timeout_s = 20",
                                                            "answer_timeout_s = 2"))
        for site in SITES:
            self.start(site)
        self.until("indexing", lambda: all(self.objects(site) == 100 for site in SITES))
        self.sites["a"].send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        code, found, end = self.query("b", 0)
        self.assertEqual(code, 3)
        self.assertGreater(time.monotonic() - begun, 2)
        self.assertEqual([site["site"] for site in end["missing"]], ["a"])
        self.assertTrue(found)
        self.assertGreater(max(site["checked"] for site in end["sites"]), 20)  # over 2 s of work
        self.sites["a"].send_signal(signal.SIGCONT)
        self.until("its return", lambda: self.query("c", 1)[0] == 0)
        code, again, end = self.query("b", 0)
        self.assertEqual((code, end["missing"]), (0, []))
        self.assertEqual({one for one in again if one[0] != "a"}, set(found))

    # A user who follows is told of a lost site; one who gives a model meanwhile, too; the site
    # fetches it when it is back. Nothing stays open when the follower leaves.
    def test_a_follower_and_a_model_while_a_site_is_lost(self):
        for site in SITES:
            self.start(site)
        self.until("indexing", lambda: all(self.objects(site) > 0 for site in SITES))
        follower = subprocess.Popen([LONGHAUL, "query", "job.toml", "0", "--follow", "--json",
                                     "--site", "a"], cwd=self.folder, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(map(json.loads, follower.stdout)),
                                  daemon=True)
        reader.start()
        told = lambda: [line for line in lines if line["kind"] == "caught_up"]
        self.until("an answer", told)
        self.assertEqual(told()[0]["missing"], [])
        self.until("the query at all", lambda: all(self.status(site).get("open_queries") == 1
                                                   for site in SITES))
        self.kill("e")
        self.until("news of the loss", lambda: len(told()) == 2)
        self.assertEqual([site["site"] for site in told()[1]["missing"]], ["e"])
        (self.folder / "model.txt").write_text("noise = 0\n")
        given = subprocess.run([LONGHAUL, "model", "job.toml", "--file", "model.txt", "--site",
                                "b"], cwd=self.folder, text=True, capture_output=True,
                               timeout=PATIENCE_S)
        self.assertEqual(given.returncode, 3, given.stdout + given.stderr)
        self.assertIn("PARTIAL: e is missing", given.stdout)
        self.start("e", "--rejoin")
        self.until("the model",
                   lambda: all(self.status(site).get("indexes_with") == 1 for site in SITES))
        self.until("the end of the streams",
                   lambda: all(self.objects(site) == OBJECTS for site in SITES))
        follower.send_signal(signal.SIGINT)
        self.assertIn(follower.wait(timeout=PATIENCE_S), (130, -signal.SIGINT))
        reader.join(timeout=PATIENCE_S)
        follower.stdout.close()
        follower.stderr.close()
        found = [(line["site"], cluster["cluster"]) for line in lines if line["kind"] == "found"
                 for cluster in line["clusters"]]
        self.assertEqual(len(found), len(set(found)))
        _, now, _ = self.query("c", 0)
        self.assertEqual({one for one in found if one[0] != "e"},
                         {one for one in now if one[0] != "e"})
        self.until("the end of the query",
                   lambda: all(self.status(site).get("open_queries") == 0 for site in SITES))

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
