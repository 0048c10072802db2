#!/usr/bin/env python3
"""doctor in the emulated WAN, in real time: nothing else may run meanwhile.

    LONGHAUL=build/release/longhaul tests/cli/doctor_lab_test.py
"""
import json
import re
import subprocess
import unittest

import lab_test
import launch_test
from cli_test import LONGHAUL
from doctor_test import QUICK, SITES

# Each pair its own: Mbit/s, ms one way.
PAIRS = {("tokyo", "lima"): (20, 10), ("lima", "tokyo"): (40, 10),
         ("tokyo", "oslo"): (60, 20), ("oslo", "tokyo"): (30, 20),
         ("tokyo", "bonn"): (25, 40), ("bonn", "tokyo"): (50, 40),
         ("lima", "oslo"): (45, 15), ("oslo", "lima"): (22, 15),
         ("lima", "bonn"): (35, 30), ("bonn", "lima"): (60, 30),
         ("oslo", "bonn"): (20, 25), ("bonn", "oslo"): (55, 25)}
WAN = '[wan]\nmodel = "fair"\n' + "".join(
    f'[[wan.link]]\nfrom = "{a}"\nto = "{b}"\nmbps = {mbps}\ndelay_ms = {ms}\n'
    for (a, b), (mbps, ms) in PAIRS.items())


class Lab(lab_test.Case):
    """setUp() skips where there can be no emulated WAN."""

    def test_it_measures_what_was_set(self):
        self.close()
        self.write(launch_test.job_of(SITES) + WAN)
        done = self.longhaul("doctor", "job.toml", "--lab", "--json", "--write-wan", "wan.toml",
                             timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(len(report["pairs"]), 12)
        for pair in report["pairs"]:
            way = (pair["from"], pair["to"])
            mbps, ms = PAIRS[way]
            self.assertAlmostEqual(pair["mbps"], mbps, delta=0.1 * mbps, msg=str(pair))
            self.assertAlmostEqual(pair["rtt_ms"], ms + PAIRS[way[::-1]][1], delta=2,
                                   msg=str(pair))
            self.assertEqual(pair["mtu"], 1500)
            self.assertTrue(pair["dscp_kept"])
        self.write(launch_test.job_of(SITES) + (self.folder / "wan.toml").read_text(),
                   "measured.toml")
        times = [json.loads(self.run_ok("simulate", job, "--quiet", "--json", "--out", job + ".d",
                                        "--set", "stop.max_rounds=5").stdout)["time_s"]
                 for job in ("job.toml", "measured.toml")]
        self.assertAlmostEqual(times[1] / times[0], 1, delta=0.1)

    def queues(self, wan):
        done = self.longhaul("doctor", "job.toml", "--lab", "--json", "--write-wan", "wan.toml",
                             "--force", "--set", *wan, "--seconds", "2", timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)["pairs"], (self.folder / "wan.toml").read_text()

    def test_a_plain_queue_is_found_and_measured(self):
        self.close()
        self.write(launch_test.job_of(SITES[:3]) + '[wan]\nmodel = "fair"\nup_mbps = 50\n'
                   "down_mbps = 50\ndelay_ms = 20\n")
        pairs, wan = self.queues(["wan.queue=drop_tail", "--set", "wan.queue_ms=60"])
        for pair in pairs:
            self.assertEqual(pair["queue"], "drop_tail", pair)
            self.assertAlmostEqual(pair["queue_ms"], 60, delta=12, msg=str(pair))
        self.assertIn('queue = "drop_tail"', wan)

    def test_the_site_behind_a_firewall_is_named(self):
        addresses = ",".join(f"{self.inside(site)[0]}:7000" for site in launch_test.SITES)
        # lima drops all that it would send, as a firewall does: nobody gets an answer.
        subprocess.run([*self.inside("lima")[1], "ip", "route", "add", "blackhole", "10.0.0.0/9"],
                       check=True)
        sites = []
        for name in launch_test.SITES[::-1]:
            log = open(self.folder / f"log-{name}", "w+")
            self.addCleanup(log.close)
            sites.append(subprocess.Popen(
                [*self.inside(name)[1], LONGHAUL, "doctor", "job.toml", "--site", name,
                 "--addresses", addresses, "--patience", "6", *QUICK], cwd=self.folder, stdout=log,
                stderr=subprocess.STDOUT))
            sites[-1].log = log
            self.addCleanup(sites[-1].wait)
            self.addCleanup(sites[-1].kill)
        code, said = self.end(sites[-1])
        self.assertEqual(code, 3, said)
        self.assertEqual(re.findall(r"^! (\w+):", said, re.M), ["lima"], said)
        self.assertRegex(said, "lima: no site reaches it; tried by tokyo, oslo: .*no answer")
        self.assertRegex(said, r"tokyo +oslo +3\d\.\d")
        self.assertEqual([self.end(site)[0] for site in sites[:-1]], [0, 3])
        self.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
