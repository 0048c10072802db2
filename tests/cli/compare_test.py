#!/usr/bin/env python3
"""compare as a user runs it: products, sweeps, seeds, budgets, resumption, tasks for others.

    LONGHAUL=build/release/longhaul tests/cli/compare_test.py
"""
import json
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from cli_test import LONGHAUL, PATIENCE_S
from effort import GATE, nightly

JOB = """\
stop = {max_rounds = 6, target_accuracy = 0.4}
report = {every_rounds = 1}
model = {kind = "logistic"}
data = {kind = "synthetic", batch = 8}
sync = {kind = "fedavg", steps = 3}
wan = {mbps = 10, delay_ms = 5}
cost = {wan_gb = 0.05, node_hour = 2, currency = "EUR"}
site = [{name = "tokyo", step_ms = 10}, {name = "lima", step_ms = 15}]
"""
# Seeds differ in how many rounds they need.
SEEDS = """\
stop = {max_rounds = 60, target_accuracy = 0.95}
report = {every_rounds = 1}
model = {kind = "logistic"}
data = {kind = "synthetic", batch = 8}
optimizer = {kind = "sgd", rate = 0.01}
sync = {kind = "fedavg", steps = 2}
wan = {mbps = 10}
site = [{name = "tokyo", step_ms = 10}, {name = "lima", step_ms = 15}]
"""
# Without numbers, and so without loading libtorch.
PHANTOM = """\
stop = {max_rounds = 6}
model = {kind = "phantom", mbytes = 0.04}
sync = {kind = "fedavg", steps = 3}
wan = {mbps = 10, delay_ms = 5}
site = [{name = "tokyo", step_ms = 10}, {name = "lima", step_ms = 15}]
"""


def xxh64(data):
    """The checksum at the end of a checkpoint: XXH64 with seed 0."""
    p1, p2, p3, p4, p5 = (11400714785074694791, 14029467366897019727, 1609587929392839161,
                          9650029242287828579, 2870177450012600261)
    mask = 2**64 - 1

    def turned(x, by):
        return ((x << by) | (x >> (64 - by))) & mask

    def mixed(lane, value):
        return turned((lane + value * p2) & mask, 31) * p1 & mask

    at, length = 0, len(data)
    value = p5
    if length >= 32:
        lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        while at + 32 <= length:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [mixed(lane, word) for lane, word in zip(lanes, words)]
            at += 32
        value = sum(turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            value = ((value ^ mixed(0, lane)) * p1 + p4) & mask
    value = (value + length) & mask
    while at + 8 <= length:
        word = struct.unpack_from("<Q", data, at)[0]
        value = (turned(value ^ mixed(0, word), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= length:
        word = struct.unpack_from("<I", data, at)[0]
        value = (turned(value ^ word * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        value = turned(value ^ byte * p5 & mask, 11) * p1 & mask
    value = (value ^ value >> 33) * p2 & mask
    value = (value ^ value >> 29) * p3 & mask
    return value ^ value >> 32


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-compare-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "job.toml").write_text(JOB)

    def longhaul(self, *args, code=0):
        done = subprocess.run([LONGHAUL, *map(str, args)], cwd=self.folder, timeout=PATIENCE_S,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def compare(self, *args, code=0):
        return json.loads(self.longhaul("compare", "job.toml", "--json", "--quiet", *args,
                                        code=code).stdout)

    def test_product_sweep_and_seeds(self):
        args = ("--sync", "fedavg", "--overlay", "ring", "--codec", "fp32,top_k", "--sweep",
                "sync.steps=2,4", "--seeds", 2, "--out", "c")
        result = self.compare(*args, "--jobs", 2)
        self.assertEqual({s["label"] for s in result["skipped"]},
                         {f"fedavg-ring-top_k-steps={n}" for n in (2, 4)})
        self.assertTrue(all("ring" in s["why"] for s in result["skipped"]))
        self.assertEqual(len(result["ranking"]), 2)
        self.assertEqual(len(result["runs"]), 4)
        times = [g["time_to_target_s"]["median"] for g in result["ranking"]]
        self.assertEqual(times, sorted(times))
        self.assertTrue(all(g["cost"] > 0 and g["runs"] == 2 for g in result["ranking"]))
        self.assertEqual(result["currency"], "EUR")
        summary = json.loads((self.folder / "c/fedavg-ring-fp32-steps=4/seed-2/summary.json")
                             .read_text())
        self.assertEqual((summary["seed"], summary["overlay"]), (2, "ring"))
        if GATE:
            return
        # The same command again starts nothing and says the same.
        folders = sorted((self.folder / "c").rglob("summary.json"))
        before = [p.stat().st_mtime_ns for p in folders]
        self.assertEqual(self.compare(*args, "--resume"), result)
        self.assertEqual([p.stat().st_mtime_ns for p in folders], before)

    def said(self, *args):
        """The table and the sentence below it, and compare.json."""
        text = self.longhaul("compare", "job.toml", "--quiet", "--jobs", 2, "--out", "c",
                             *args).stdout.split("\n\n")
        return *text[:2], json.loads((self.folder / "c/compare.json").read_text())

    def test_one_seed_cannot_tell(self):
        (self.folder / "job.toml").write_text(PHANTOM)
        two = ("--sync", "fedavg", "--sweep", "sync.steps=3,9")
        table, verdict, result = self.said(*two)
        self.assertRegex(table, "^job, one seed +overlay")
        self.assertTrue(verdict.startswith("one seed cannot tell which is first (--seeds 3 may): "))
        self.assertEqual((result["winner"], result["verdict"]), (None, verdict))
        self.assertEqual([row["ties_with_best"] for row in result["ranking"]], [None, None])
        # A report of the folder would show that seed alone.
        refused = self.longhaul("compare", "job.toml", *two, "--seeds", 3, "--out", "c", code=2)
        self.assertIn("holds a run of one seed; --force", refused.stderr)
        table, verdict, _ = self.said(*two, "--seeds", 3, "--force")
        self.assertRegex(table, "^job, 3 seeds +overlay")
        self.assertIn("steps=3 is first", verdict)
        self.assertFalse((self.folder / "c/fedavg-steps=3/job.toml").exists())

    @nightly
    def test_several_seeds_tie_or_name_a_winner(self):
        (self.folder / "job.toml").write_text(SEEDS)
        delays = ("--sync", "fedavg", "--seeds", 3, "--sweep")
        table, verdict, result = self.said(*delays, "wan.delay_ms=5,6,200")
        self.assertRegex(table, r" 2\d\d ms \(\d+ ms to \d+ ms\) ")
        self.assertRegex(verdict, "^fedavg-delay_ms=5 and fedavg-delay_ms=6 tie: the ranges of "
                                  "their times to 95 % over 3 seeds overlap; the best median is ")
        self.assertEqual(result["winner"], None)
        self.assertEqual([row["ties_with_best"] for row in result["ranking"]], [True, True, False])
        self.longhaul("report", "c", "--svg", "c.svg")
        legend = re.findall(r">(fedavg-delay_ms=\d+: [^<]*, 3 seeds)<",
                            (self.folder / "c.svg").read_text())
        self.assertEqual(len(legend), 3, "a name for each combination")
        # Without the one that ties.
        _, verdict, result = self.said(*delays, "wan.delay_ms=5,200", "--gather")
        self.assertRegex(verdict, r"^fedavg-delay_ms=5 is first: 95 % in .*; \d+\.\d\d times "
                                  r"sooner than fedavg-delay_ms=200 \(.* kB\), by the "
                                  "median of 3 seeds$")
        self.assertEqual(result["winner"], "fedavg-delay_ms=5")
        ranges = [row["time_to_target_s"] for row in result["ranking"]]
        self.assertLess(ranges[0]["max"], ranges[1]["min"])
        self.assertEqual([row["ties_with_best"] for row in result["ranking"]], [False, False])

    def test_runs_are_those_of_simulate(self):
        # compare copies its process for each run; a run by itself has the same bits and events.
        if GATE:
            (self.folder / "job.toml").write_text(PHANTOM)
        self.compare("--sync", "fedavg,diloco", "--jobs", 2, "--out", "c")
        for sync in ("fedavg", "diloco"):
            self.longhaul("simulate", "job.toml", "--set", f"sync.kind={sync}", "--quiet", "--out",
                          sync)
            both = [self.folder / folder for folder in (f"c/{sync}", sync)]
            hashes = [json.loads((run / "summary.json").read_text())["params_hash"] for run in both]
            self.assertEqual(hashes[0], hashes[1])
            events = [(run / "metrics.jsonl").read_text() for run in both]
            self.assertEqual(events[0], events[1])

    def test_equal_budget_and_all_kinds(self):
        (self.folder / "job.toml").write_text(PHANTOM)
        args = ("--sync", "all", "--overlay", "direct", "--out", "c")
        hours = 0.0001 if GATE else 0.0005
        result = self.compare(*args, "--jobs", 2, "--hours", hours)
        reasons = {run["sync"]: run["stop_reason"] for run in result["runs"]}
        self.assertEqual((reasons["bsp"], reasons["fedavg"]), ("max_hours", "max_hours"))
        self.assertIn("asp-direct", [s["label"] for s in result["skipped"]])
        text = self.longhaul("compare", "job.toml", *args, "--hours", hours, "--quiet",
                             "--resume").stdout
        self.assertIn("[sync] steps: not for bsp", text)
        self.assertIn("Left out", text)

    def test_tasks_for_another_scheduler(self):
        (self.folder / "job.toml").write_text(PHANTOM)
        args = ("job.toml", "--sync", "fedavg,diloco", "--out", "c")
        tasks = self.longhaul("compare", *args, "--emit", "parallel").stdout.splitlines()
        self.assertEqual(len(tasks), 2)
        missing = self.longhaul("compare", *args, "--gather", code=1).stdout
        self.assertIn("2 of 2 runs are missing", missing)
        for task in tasks:
            subprocess.run(["sh", "-c", task], cwd=self.folder, check=True, timeout=PATIENCE_S,
                           capture_output=True)
        gathered = json.loads(self.longhaul("compare", *args, "--gather", "--json").stdout)
        self.assertEqual(len(gathered["ranking"]), 2)
        self.assertEqual(self.longhaul("compare", *args, "--emit", "slurm").stdout, "")

    def test_a_checkpoint_of_an_older_version_begins_anew(self):
        (self.folder / "job.toml").write_text("job = {checkpoint_every = 2}\n" + PHANTOM)
        args = ("--sync", "fedavg,diloco", "--out", "c")
        before = self.compare(*args)
        run = self.folder / "c/fedavg"
        (run / "summary.json").unlink()
        kept = list((run / "checkpoints").iterdir())
        self.assertGreater(len(kept), 0)
        for file in kept:
            body = file.read_bytes()[:-8].replace(b"longhaul checkpoint ", b"longhaul checkpoinT ")
            file.write_bytes(body + xxh64(body).to_bytes(8, "little"))
        done = self.longhaul("compare", "job.toml", *args, "--resume", "--quiet")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], "^fedavg: begins anew: .*checkpoint")
        after = json.loads((self.folder / "c/compare.json").read_text())
        self.assertEqual([r["time_s"] for r in after["runs"]],
                         [r["time_s"] for r in before["runs"]])

    def test_refused(self):
        for args, name in ((("--sync", "fedavg,fedavg"), "named twice"),
                           (("--sync", "fedavg", "--sweep", "steps=3"), "TABLE.KEY="),
                           (("--sync", "fedavg", "--sweep", "sync.steps=3,"), "missing"),
                           (("--sync", "fedavg", "--sweep", "sync.stesp=3"), "'steps'"),
                           (("--sync", "fedavg", "--overlay", ""), "no such [overlay] kind"),
                           (("--sync", "fedavg", "--out", "job.toml/c"), "folder with --out DIR"),
                           (("--sync", "fedavg", "--codec", "int9"), "'int8'")):
            done = self.longhaul("compare", "job.toml", *args, code=2)
            self.assertIn(name, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertFalse((self.folder / "runs").exists())

    def test_a_run_that_fails_is_named_and_the_others_count(self):
        (self.folder / "job.toml").write_text(JOB.replace(", steps = 3", "")
                                              .replace("logistic", "mlp"))
        done = self.longhaul("compare", "job.toml", "--sync", "gadmm,bsp", "--quiet", "--out", "c",
                             code=2)
        rows = done.stdout.splitlines()
        self.assertTrue(rows[1].startswith("bsp "), done.stdout)
        self.assertTrue(rows[2].startswith("gadmm  failed: "), done.stdout)
        self.assertIn("cannot be solved locally", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
