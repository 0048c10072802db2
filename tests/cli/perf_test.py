#!/usr/bin/env python3
"""perf: one exchange timed in the simulator, over loopback and by sites of their own, as a user
does it.

    LONGHAUL=build/release/longhaul tests/cli/perf_test.py
"""
import json
import os
import signal
import unittest

import launch_test
from effort import nightly
from ports import free_addresses

SITES = ["tokyo", "lima", "oslo"]
# Every site sends and gets 1 MB/s.
LINKS = "[wan]\ndelay_ms = 5\n"
KEYS = {"name", "place", "op", "overlay", "sites", "nodes", "mbytes", "repeat", "time_s", "min_s",
        "max_s", "times_s", "warm_up_s", "last", "goodput_mbps", "bus_mbps", "wan_bytes", "bound_s",
        "bandwidth_s", "ratio"}


def job_of(sites, more=LINKS):
    text = launch_test.JOB.replace('kind = "hub"', 'kind = "ring"') + more
    for name in sites:
        text += f'[[site]]\nname = "{name}"\nup_mbps = 8\ndown_mbps = 8\n'
    return text


class Case(launch_test.Case):
    def setUp(self):
        super().setUp()
        self.write(job_of(SITES))

    def perf(self, *args):
        done = self.run_ok("perf", "job.toml", "--json", *args)
        told = json.loads(done.stdout)
        self.assertLessEqual(KEYS, set(told))
        self.assertEqual(len(told["times_s"]), told["repeat"])
        self.assertEqual((told["min_s"], told["max_s"]),
                         (min(told["times_s"]), max(told["times_s"])))
        return told, done.stderr


class Simulated(Case):
    def test_a_ring_takes_what_the_formula_says(self):
        told, said = self.perf("--mbytes", 2, "--set", "overlay.phases=sequential")
        expected = 2 * 2 * (0.005 + 2 / 3)
        self.assertAlmostEqual(told["time_s"], expected, delta=0.005 * expected)
        self.assertAlmostEqual(told["bandwidth_s"], 2 * 2 * 2 / 3, places=9)
        self.assertAlmostEqual(told["bound_s"], told["bandwidth_s"] + 0.005, places=9)
        self.assertAlmostEqual(told["ratio"], told["time_s"] / told["bound_s"], places=9)
        self.assertAlmostEqual(told["goodput_mbps"], 16 / told["time_s"], places=9)
        self.assertAlmostEqual(told["bus_mbps"], 16 / told["time_s"] * 4 / 3, places=9)
        self.assertAlmostEqual(told["wan_bytes"], 4 * 2e6, delta=0.001 * 8e6)
        self.assertEqual((told["place"], told["op"], told["overlay"]),
                         ("simulator", "all-reduce", "ring"))
        self.assertEqual(said.splitlines()[0].split(":")[0], "warm-up")
        self.assertIn("lap 3 of 3: ", said)

    def test_the_same_figures_every_time(self):
        self.assertEqual(self.perf()[0], self.perf("--quiet")[0])
        self.assertEqual(self.perf("--quiet")[1], "")

    def test_a_hub_takes_longer_and_a_fair_link_carries_headers(self):
        ring, _ = self.perf("--mbytes", 2)
        hub, _ = self.perf("--mbytes", 2, "--overlay", "hub", "--repeat", 1)
        self.assertEqual((hub["overlay"], hub["repeat"]), ("hub", 1))
        self.assertGreater(hub["time_s"], 1.4 * ring["time_s"])
        fair, _ = self.perf("--mbytes", 2, "--set", "wan.model=fair")
        self.assertAlmostEqual(fair["bandwidth_s"], ring["bandwidth_s"] * 1500 / 1448, places=9)
        self.assertGreater(fair["ratio"], 1)

    def test_a_broadcast(self):
        told, _ = self.perf("--op", "broadcast", "--overlay", "hub", "--mbytes", 2)
        self.assertEqual(told["root"], "tokyo")
        self.assertAlmostEqual(told["wan_bytes"], 2 * 2e6, delta=0.002 * 4e6)
        self.assertAlmostEqual(told["bandwidth_s"], 2, places=9)
        self.assertEqual(told["bus_mbps"], told["goodput_mbps"])
        told, _ = self.perf("--op", "broadcast", "--overlay", "direct", "--root", "oslo")
        self.assertEqual(told["root"], "oslo")

    def test_a_server_apart_serves(self):
        self.write(job_of(SITES) + '[roles]\nserver = "oslo"\n')
        told, _ = self.perf("--overlay", "hub", "--mbytes", 2)
        self.assertEqual(told["nodes"], 3)
        self.assertAlmostEqual(told["wan_bytes"], 4 * 2e6, delta=0.002 * 8e6)

    def test_a_network_of_the_program(self):
        self.write(job_of([]))
        told, _ = self.perf("--wan", "gaia-11", "--repeat", 1)
        self.assertEqual(told["sites"], 11)
        self.assertGreaterEqual(told["ratio"], 1)

    def test_text(self):
        said = self.run_ok("perf", "job.toml", "--mbytes", 2, "--quiet").stdout
        self.assertIn("small: all-reduce of 2 MB over ring among 3 nodes of 3 sites, in the "
                      "simulator", said)
        for word in ("time ", "goodput", "bus bandwidth", "between sites", "bound", "time / bound"):
            self.assertIn(word, said)

    def test_help_has_an_example(self):
        self.assertIn("longhaul perf examples/", self.run_ok("perf", "--help").stdout)


class Bad(Case):
    def test_bad_input(self):
        broadcast = ("--op", "broadcast")
        for args, names in (
                (("--overlay", "rign"), ("overlay", "'ring'")),
                (("--root", "oslo"), ("--root", "--op broadcast")),
                (broadcast, ("ring has none", "--overlay direct")),
                ((*broadcast, "--overlay", "hub", "--root", "oslo"),
                 ("server", "at tokyo", "--root tokyo", "--set roles.server=oslo")),
                ((*broadcast, "--overlay", "direct", "--root", "olso"), ("--root olso", "'oslo'")),
                (("--mbytes", "0"), ("--mbytes",)),
                (("--repeat", "0"), ("--repeat",)),
                (("--local", "--mbytes", "5000"), ("--mbytes 5000", "1000")),
                (("--local", "--lab"), ("--lab",)),
                (("--insecure",), ("--insecure", "--site")),
                (("--site", "tokio", "--addresses", "127.0.0.1:1"), ("tokio", "'tokyo'")),
                (("--site", "tokyo"), ("address", "missing")),
                (("--site", "tokyo", "--addresses", "127.0.0.1:1"), ("1 addresses", "3 nodes")),
                (("--site", "tokyo", "--keys", "none", "--addresses", "h1:1,h2:1,h3:1"),
                 ("none/ca.crt", "longhaul keys init none"))):
            with self.subTest(args=args):
                self.bad("perf", "job.toml", *args, names=names)

    def test_one_worker_exchanges_nothing(self):
        self.write(job_of(["tokyo"]))
        self.bad("perf", "job.toml", names=("job.toml: 1 worker", "needs two"))


class Sockets(Case):
    @nightly
    def test_loopback(self):
        for overlay in ("ring", "hub", "direct"):
            told, said = self.perf("--local", "--overlay", overlay, "--repeat", 2)
            self.assertEqual((told["place"], told["overlay"]), ("local", overlay))
            self.assertIsNone(told["bound_s"])
            self.assertAlmostEqual(told["wan_bytes"], 4 * 25e6, delta=0.001 * 100e6)
            self.assertIn("tokyo: lap 2 of 2: ", said)

    def test_a_broadcast_and_a_server_apart(self):
        self.write(job_of(SITES) + '[roles]\nserver = "oslo"\n')
        told, _ = self.perf("--local", "--overlay", "hub", "--op", "broadcast", "--root", "oslo",
                            "--mbytes", 2, "--repeat", 1)
        self.assertAlmostEqual(told["wan_bytes"], 2 * 2e6, delta=0.005 * 4e6)

    def sites(self, *more, last=()):
        addresses = free_addresses(3)
        nodes = [self.start("perf", "job.toml", "--site", site, "--addresses", addresses,
                            "--mbytes", 2, "--json", *more, *(last if site == "oslo" else ()))
                 for site in SITES]
        return [self.end(node) for node in nodes]

    @nightly
    def test_sites_of_their_own_and_the_first_one_prints(self):
        (code, first), *others = self.sites("--quiet")
        self.assertEqual(code, 0, first)
        told = json.loads(first)
        self.assertLessEqual(KEYS, set(told))
        self.assertEqual(told["place"], "site")
        self.assertEqual(others, [(0, "")] * 2)

    @nightly
    def test_sites_that_do_not_measure_the_same_say_so(self):
        for code, said in self.sites("--set", "net.meet_s=30", last=("--repeat", 2)):
            self.assertEqual(code, 3, said)
            self.assertIn("job", said)

    def begin(self, *args):  # so little that no sum of it keeps a site from what others say
        run = self.start("perf", "job.toml", "--local", "--mbytes", 5, "--repeat", 1000,
                         *launch_test.LOSE, *args)
        self.until(run, "lap 1 of 1000")
        return run, self.sites_of(run)

    @nightly
    def test_a_lost_site_ends_it(self):
        run, sites = self.begin()
        os.kill(sites["oslo"], signal.SIGKILL)
        code, said = self.end(run)
        self.assertEqual(code, 3, said)
        self.assertIn("oslo", said)
        self.assertFalse(any(map(launch_test.alive, sites.values())))

    @nightly
    def test_ctrl_c_ends_it(self):
        run, sites = self.begin("--json")
        run.send_signal(signal.SIGINT)
        code, said = self.end(run)
        self.assertEqual(code, 130, said)
        self.assertNotIn("time_s", said)
        self.assertFalse(any(map(launch_test.alive, sites.values())))


if __name__ == "__main__":
    unittest.main(verbosity=2)
