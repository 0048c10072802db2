#!/usr/bin/env python3
"""Networks and bounds as a user meets them: presets, matrices of one's own, bad ones, bound.

    LONGHAUL=build/release/longhaul tests/cli/wan_test.py
"""
import json
import unittest

import cli_test
from effort import GATE, chosen

JOB = """\
[job]
name = "timing"
[stop]
max_rounds = 4
[model]
kind = "phantom"
mbytes = 1
[sync]
kind = "bsp"
"""
MATRIX = "src,a,b\na,,80\nb,40,\n"


class Case(cli_test.Case):
    def setUp(self):
        super().setUp()
        self.write(JOB)
        self.write(MATRIX, "mbps.csv")

    def says(self, *args, code=0):
        done = self.run_ok(*args, code=code)
        return done.stderr if code else done.stdout

    def own_matrices(self):
        self.write(JOB + '[wan]\nmbps_csv = "mbps.csv"\n')


class Networks(Case):
    def test_list_and_explain(self):
        networks = json.loads(self.says("list", "--json"))["wan"]
        self.assertEqual(len(networks), 16)
        for network in networks[:3] if GATE else networks:
            told = self.says("explain", network["name"])
            self.assertIn("source: ", told)
            self.assertIn(network["summary"], told)
        told = self.says("explain", "job.toml", "--wan", "dtfm-4us")
        self.assertIn("Network\n", told)
        self.assertIn("virginia", told)

    def test_matrices_of_a_network_file_stand_beside_it(self):
        (self.folder / "measured").mkdir()
        self.write(MATRIX, "measured/rates.csv")
        self.write('[wan]\nmbps_csv = "rates.csv"\n', "measured/wan.toml")
        told = self.says("explain", "job.toml", "--wan", "measured/wan.toml")
        self.assertRegex(told, r"(?m)^b +40 *$")
        told = self.says("explain", "job.toml", "--wan", "measured/rates.csv", code=2)
        self.assertIn("a .toml with [wan] mbps_csv", told)

    def test_a_run_on_a_preset_goes_on_with_it(self):
        args = ("simulate", "job.toml", "--wan", "dtfm-4us", "--json", "--quiet")
        first = json.loads(self.says(*args))
        self.assertEqual(first["sites"], 4)
        self.says("compare", "job.toml", "--wan", "dtfm-4us", "--sync", "bsp,fedavg", "--set",
                  "site.ohio.step_ms=5", "--quiet")
        self.says(*args[:2], "--wan", "gaia-11", "--resume", "--quiet", code=2)

    def test_what_queues_cannot_do_is_refused(self):
        for name in ("two-continents", "dynamic"):
            told = self.says("simulate", "job.toml", "--wan", name, code=2)
            self.assertIn("FIFO", told)
            self.says("bound", "job.toml", "--wan", name)

    def test_matrices_that_change_stop_a_resumed_run(self):
        self.own_matrices()
        self.says("simulate", "job.toml", "--quiet")
        self.write(MATRIX.replace("80", "90"), "mbps.csv")
        told = self.says("simulate", "job.toml", "--resume", "--quiet", code=2)
        self.assertIn("[wan] matrices", told)

    def test_a_bad_matrix(self):
        self.own_matrices()
        self.write(MATRIX.replace("80", "-80"), "mbps.csv")
        told = self.says("simulate", "job.toml", code=2)
        for part in ("job.toml:11: [wan] mbps_csv: ", "mbps.csv:2: column 3: expected a rate",
                     "'-80'"):
            self.assertIn(part, told)
        self.assertFalse((self.folder / "runs").exists())


class Traces(Case):
    TABLES = '[wan]\nmodel = "fair"\n[[wan.trace]]\nfile = "down/rates.csv"\n' \
             '[[site]]\nname = "a"\n[[site]]\nname = "b"\n'

    def setUp(self):
        super().setUp()
        (self.folder / "jobs/down").mkdir(parents=True)
        (self.folder / "jobs/job.toml").write_text(JOB + self.TABLES)
        self.rates("seconds,value\n0,80\n0.1,8\n")

    def rates(self, text):
        (self.folder / "jobs/down/rates.csv").write_text(text)

    def time_s(self, *args):
        told = self.says("simulate", "jobs/job.toml", "--json", "--quiet", "--force", *args)
        return json.loads(told)["time_s"]

    def test_a_run_follows_a_file_and_keeps_what_it_held(self):
        slow = self.time_s()
        self.rates("seconds,value\n0,80\n")
        self.assertLess(self.time_s(), slow)
        self.says("simulate", "jobs/job.toml", "--resume", "--quiet")
        self.rates("seconds,value\n0,80\n0.1,8\n")
        told = self.says("simulate", "jobs/job.toml", "--resume", "--quiet", code=2)
        self.assertIn("[wan.trace[0]] at_s: was [0.0], is [0.0, 0.1]", told)
        told = self.says("explain", "jobs/job.toml", "--all")
        self.assertIn("jobs/down/rates.csv", told)

    def test_bad_files_are_one_line_that_names_file_and_line(self):
        for text, expected in (
                ("", "jobs/down/rates.csv: empty; expected a first line seconds,value"),
                ("a,b\n0,80\n", "rates.csv:1: expected a first line seconds,value, found 'a,b'"),
                ("seconds,value\n5,80\n", "rates.csv:2: expected 0 as the first time, found '5'"),
                ("seconds,value\n0,80\n0,8\n", "rates.csv:3: expected a time in s above"),
                ("seconds,value\n0,x\n", "rates.csv:2: expected a rate in Mbit/s from 0 to")):
            self.rates(text)
            told = self.says("simulate", "jobs/job.toml", code=2)
            self.assertIn("jobs/job.toml:13: [wan.trace[0]] file: ", told)
            self.assertIn(expected, told)
            self.assertEqual(len(told.strip().splitlines()), 1, told)
        (self.folder / "jobs/down/rates.csv").unlink()
        told = self.says("simulate", "jobs/job.toml", code=2)
        self.assertIn("jobs/down/rates.csv: no such trace (CSV); check the path", told)
        self.assertFalse((self.folder / "runs").exists())


class Bounds(Case):
    def bound(self, *args):
        return json.loads(self.says("bound", "job.toml", "--json", *args))

    def test_gaia(self):
        told = self.bound("--wan", "gaia-11", "--payload")
        self.assertAlmostEqual(told["bandwidth_s"], 2 * 10 * 25e6 / (11 * 125e6), places=9)
        self.assertAlmostEqual(told["tree_s"], told["bandwidth_s"], places=6)
        self.assertGreater(told["bound_s"], told["bandwidth_s"])
        self.assertEqual(told["binds"], "all uplinks together")
        told = self.says("bound", "job.toml", "--wan", "straggler")
        self.assertIn("the uplink of bad", told)

    def test_own_matrix(self):
        self.own_matrices()
        told = self.bound("--mbytes", "10", "--op", "broadcast", "--root", "b")
        self.assertAlmostEqual(told["bandwidth_s"], 10e6 * 1500 / 1448 / 5e6, places=9)
        self.assertEqual((told["root"], told["sites"]), ("b", 2))
        self.assertIn("'b'", self.says("bound", "job.toml", "--op", "broadcast", "--root", "bb",
                                       code=2))
        self.says("bound", "job.toml", "--root", "b", code=2)

    def test_no_simulated_round_is_quicker(self):
        self.write(JOB.replace("mbytes = 1", "mbytes = 25"))
        for name in chosen(("gaia-11", "straggler", "edge-hub"), 1):
            least = self.bound("--wan", name, "--payload")["bound_s"]
            for overlay in ("direct", "ring", "hub"):
                told = json.loads(self.says("simulate", "job.toml", "--wan", name, "--dry-run",
                                            "--json", "--set", f"overlay.kind={overlay}"))
                self.assertGreater(told["round_s"], least, (name, overlay))


if __name__ == "__main__":
    unittest.main()
