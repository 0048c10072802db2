#!/usr/bin/env python3
"""gaia, ds_sync, selmcast and sfb over sockets while processes are killed or stopped: a worker, a
hub, the manager (the lowest rank, tokyo), two at once. Nobody hangs, and those that are left end
with one model. One of gaia comes back.

    LONGHAUL=build/release/longhaul tests/cli/peer_losses_test.py
    LONGHAUL_ALL=1 ...     every case instead of one, with a line for each
"""
import json
import os
import shutil
import signal
import time
import unittest

import launch_test
from cli_test import PATIENCE_S
from launch_test import ALL

SITES = ["tokyo", "lima", "oslo", "paris", "cairo"]
HUBS = ["exchange=gaia_hubs", 'groups=["tokyo lima oslo", "paris cairo"]']
KILL, STOP = signal.SIGKILL, signal.SIGSTOP
CASES = [  # [sync], whom, how
    ("gaia", [], ["lima"], KILL),
    ("gaia", HUBS, ["tokyo"], KILL),
    ("gaia", HUBS, ["tokyo", "cairo"], KILL),
    ("gaia", HUBS, ["paris"], STOP),
    ("gaia", ["staleness=0"], ["lima", "oslo"], STOP),
    ("ds_sync", [], ["oslo"], STOP),
    ("ds_sync", ["schedule=grid", "sync_state=true"], ["lima", "paris"], KILL),
    ("ds_sync", ["schedule=random", "group_size=2"], ["tokyo", "oslo"], STOP),
    ("ds_sync", ["schedule=topology", "sense=true"], ["tokyo"], STOP),
    ("selmcast", [], ["tokyo"], KILL),
    ("selmcast", [], ["tokyo"], STOP),
    ("selmcast", ["mode=ssp"], ["tokyo", "lima"], STOP),
    ("selmcast", ["mode=ssp"], ["oslo"], STOP),
    ("sfb", [], ["lima"], STOP),
    ("sfb", ["spread=tree"], ["tokyo"], STOP),
    ("sfb", ["spread=tree", "rule=always"], ["lima", "paris"], STOP),
    ("sfb", ["spread=partial", "mean_every=20"], ["tokyo", "oslo"], STOP),
    ("sfb", ["on_divergence=adopt"], ["tokyo"], STOP),
    ("sfb", ["wait_free=true"], ["lima", "oslo"], KILL),
]
if not ALL:
    CASES = [CASES[2]]


class Peers(launch_test.Case):
    def begin(self, kind, keys, rounds, *more):
        self.write(launch_test.job_of(SITES))
        if "--resume" not in more:
            shutil.rmtree(self.folder / "runs", ignore_errors=True)
        return self.start(
            "launch", "job.toml", "--set", f"sync.kind={kind}", "--set",
            f"stop.max_rounds={rounds}", "--set", "report.every_rounds=100", "--set",
            "net.pace=true", "--set", "site.*.step_ms=8", *launch_test.LOSE, *more,
            *[word for key in keys for word in ("--set", f"sync.{key}")])

    def expect_others_end(self, kind, keys, victims, how, rounds=500):
        launch = self.begin(kind, keys, rounds, *launch_test.GONE)
        self.until_checkpoints(launch, SITES)
        sites = self.sites_of(launch)
        self.assertEqual(sorted(sites), sorted(SITES))
        lost = {name: sites.pop(name) for name in victims}
        begin = time.monotonic()
        for pid in lost.values():
            os.kill(pid, how)
        while any(map(launch_test.alive, sites.values())):
            self.assertLess(time.monotonic() - begin, PATIENCE_S,
                            "hangs:\n" + self.said(launch)[-3000:])
            time.sleep(0.05)
        if how == STOP:
            for pid in lost.values():
                os.kill(pid, KILL)
        code, text = self.end(launch)
        if ALL:
            print(f"{kind} {keys}, {victims} {how.name}: code {code} after "
                  f"{time.monotonic() - begin:.1f} s", flush=True)
        self.assertEqual(code, 0, text)
        done = [json.loads((self.folder / f"runs/small/{name}/summary.json").read_text())
                for name in sites]
        self.assertEqual({one["rounds"] for one in done}, {rounds}, text)
        self.assertEqual(len({one["params_hash"] for one in done}), 1, text)

    def test_without_some_the_others_end_with_one_model(self):
        for kind, keys, victims, how in CASES:
            with self.subTest(kind=kind, keys=keys, victims=victims, how=how.name):
                self.expect_others_end(kind, keys, victims, how)

    @unittest.skipUnless(ALL, "takes real time")
    def test_rounds_a_second_are_those_of_the_simulator(self):
        for kind, keys in (("gaia", []), ("gaia", ["staleness=0", *HUBS]),
                           ("ds_sync", ["schedule=grid"]), ("selmcast", []),
                           ("selmcast", ["mode=ssp"]), ("sfb", ["rule=always"]),
                           ("sfb", ["spread=partial"])):
            with self.subTest(kind=kind, keys=keys):
                sets = ["--set", f"sync.kind={kind}", "--set", "stop.max_rounds=40", "--set",
                        "net.pace=true", "--set", "site.*.step_ms=250", "--set", "wan.delay_ms=0",
                        *[word for key in keys for word in ("--set", f"sync.{key}")]]
                self.write(launch_test.job_of(SITES))
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                self.run_ok("simulate", "job.toml", "--quiet", "--out", "runs/simulated", *sets)
                self.says("launch", "job.toml", "--quiet", *sets)
                rates = [self.summary(run)["rounds"] / self.summary(run)["time_s"]
                         for run in ("runs/simulated", "runs/small")]
                print(f"{kind} {keys}: {rates[0]:.3f} rounds/s simulated, {rates[1]:.3f} over "
                      "sockets", flush=True)
                self.assertAlmostEqual(rates[1] / rates[0], 1, delta=0.05)

    def test_a_killed_site_of_gaia_comes_back(self):
        launch = self.begin("gaia", ["exchange=gaia_hubs"], 100000)
        self.until_checkpoints(launch, SITES)
        os.kill(self.sites_of(launch)["lima"], KILL)
        self.until(launch, "rank 1 (lima) is back")
        self.until_gone_on(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        # The end is set now: however slow the machine, it was back before.
        rounds = self.summary()["rounds"] + 50
        launch = self.begin("gaia", ["exchange=gaia_hubs"], rounds, "--resume")
        code, text = self.end(launch)
        self.assertEqual(code, 0, text)
        done = [json.loads((self.folder / f"runs/small/{name}/summary.json").read_text())
                for name in SITES]
        self.assertEqual(len({one["params_hash"] for one in done}), 1)
        self.assertEqual({one["rounds"] for one in done}, {rounds})


if __name__ == "__main__":
    unittest.main(verbosity=2)
