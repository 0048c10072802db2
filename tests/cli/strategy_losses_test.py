#!/usr/bin/env python3
"""Kills a worker, and then the server or state server, of every strategy with kill -9 in the middle
of a run over sockets. No process hangs, and the run ends as docs/sync says.

    LONGHAUL=build/release/longhaul tests/cli/strategy_losses_test.py
    LONGHAUL_ALL=1 ...     every strategy instead of four, with a line for each kill
"""
import json
import os
import shutil
import signal
import time
import unittest

import cli_test
import launch_test
from launch_test import ALL

WORKERS = ["tokyo", "lima", "oslo", "paris"]
SERVER = "hq"
STEP_MS = 8  # at least, by [net] pace: a run lasts for seconds on any machine
# After a loss the mean, or the mixing, goes on without the lost, who takes part as a worker or at
# the middle: kind, keys of [sync], rounds of some seconds, and the role of the middle.
AGREED = [
    ("bsp", [], 600, "server"),
    ("fedavg", ["steps=3"], 200, "server"),
    ("fedprox", ["steps=3"], 200, "server"),
    ("diloco", ["steps=3"], 200, "server"),
    ("fedssgd", [], 600, "server"),
    ("fedssgd", ["reading=semi", "steps=3"], 200, "server"),
    ("easgd", ["synchronous=true", "steps=3"], 200, "server"),
    ("esync", ["state_timeout_s=1"], 600, "state_server"),
    ("nbsync", [], 600, "server"),
    ("dpsgd", ["graph=complete"], 600, "server"),
    ("noloco", ["steps=3"], 200, "server"),
    ("staleness_lab", ["max_delay=2"], 600, "server"),
    ("adpsgd", [], 600, "server"),
    ("selmcast", [], 600, "server"),
    ("selmcast", ["payload=update", "rates=measured"], 600, "server"),
    ("selmcast", ["mode=ssp"], 600, "server"),
    ("ds_sync", [], 600, "server"),
    ("ds_sync", ["schedule=random", "group_size=2"], 600, "server"),
    ("shadowsync", [], 300, "server"),
    ("shadowsync", ["algorithm=bmuf"], 300, "server"),
    ("shadowsync", ["algorithm=easgd"], 300, "server"),
    ("shadowsync", ["algorithm=easgd", "servers=2", "lanes=3"], 300, "server"),
    ("shadowsync", ["mode=foreground", "steps=3"], 200, "server"),
    ("gaia", [], 600, "server"),
    ("gaia", ["exchange=gaia_hubs"], 600, "server"),
    ("sfb", [], 600, "server"),
    ("sfb", ["spread=tree"], 600, "server"),
    ("sfb", ["rule=always", "wait_free=true"], 600, "server"),
    ("p3", [], 600, "server"),
    ("gadmm", [], 120, "server"),
    ("gadmm", ["send=quantised", "chain=strides", "chain_every=5"], 120, "server"),
    ("gadmm", ["chain=star"], 120, "server"),
    ("gadmm", ["method=dgd", "step=0.001", "stop_when=published", "least=-1"], 300, "server"),
    ("lag", [], 600, "server"),
    ("lag", ["rule=always"], 600, "server"),
    ("skewscout", ["travel_every=20"], 600, "server"),
    ("skewscout", ["strategy=fedavg", "grid=[3]", "travel_every=20"], 200, "server"),
]
# A strategy with a server of its own ends with it.
SERVED = [
    ("asp", [], 600),
    ("ssp", [], 600),
    ("fedasync", ["steps=3"], 200),
    ("async_diloco", ["steps=3"], 200),
    ("easgd", ["steps=3"], 200),
    ("fedat", ["steps=3", "tiers=2"], 200),
    ("fedgsync", ["steps=3", "groups=2"], 200),
]
if not ALL:
    AGREED = [case for case in AGREED if case[0] in ("esync", "nbsync")]
    SERVED = [case for case in SERVED if case[0] in ("asp", "fedgsync")]


class Losses(launch_test.Case):
    def kill_in(self, victim, role, kind, keys, rounds, *sets):
        """The launch's exit code, what it said, and the summaries of the others."""
        middle = f'[[site]]\nname = "{SERVER}"\nroles = ["{role}"]\n'
        self.write(launch_test.job_of(WORKERS) + middle)
        shutil.rmtree(self.folder / "runs", ignore_errors=True)  # checkpoints of the run before
        launch = self.start(
            "launch", "job.toml", *launch_test.GONE, "--set", f"sync.kind={kind}", "--set",
            f"stop.max_rounds={rounds}", "--set", "report.every_rounds=200", "--set",
            "net.pace=true", "--set", f"site.*.step_ms={STEP_MS}", *launch_test.LOSE, *sets,
            *[word for key in keys for word in ("--set", f"sync.{key}")])
        self.until_checkpoints(launch, [victim])
        sites = self.sites_of(launch)
        self.assertEqual(sorted(sites), sorted([*WORKERS, SERVER]))
        os.kill(sites.pop(victim), signal.SIGKILL)
        begin = time.monotonic()
        code, text = self.all_end(launch, sites)
        if ALL:
            print(f"{kind} {keys}, {victim}: code {code} after {time.monotonic() - begin:.1f} s",
                  flush=True)
        done = [json.loads(path.read_text()) for name in WORKERS if name != victim and
                (path := self.folder / f"runs/small/{name}/summary.json").exists()]
        return code, text, done

    def expect_others_go_on(self, victim, role, kind, keys, rounds, *sets):
        code, text, done = self.kill_in(victim, role, kind, keys, rounds, *sets)
        self.assertEqual(code, 0, text)
        self.assertIn(f"({victim})", text, "it was killed too late")
        self.assertEqual(len(done), len(WORKERS) - (victim in WORKERS), text)
        self.assertEqual({one["rounds"] for one in done}, {rounds}, text)
        return done

    def test_without_a_worker_or_the_middle_the_mean_goes_on(self):
        for kind, keys, rounds, role in AGREED:
            sets = ["--set", f"roles.server={SERVER}"] if role == "server" else []
            for victim in ("lima", SERVER):
                with self.subTest(kind=kind, keys=keys, victim=victim):
                    done = self.expect_others_go_on(victim, role, kind, keys, rounds, *sets)
                    self.assertEqual(len({one["params_hash"] for one in done}), 1)

    def test_without_a_worker_the_server_goes_on(self):
        for kind, keys, rounds in SERVED:
            with self.subTest(kind=kind):
                self.expect_others_go_on("lima", "server", kind, keys, rounds)

    def test_without_its_server_the_run_ends_with_code_3_and_its_name(self):
        for kind, keys, _ in SERVED:
            with self.subTest(kind=kind):
                # The workers wait for it: it could be started again.
                code, text, _ = self.kill_in(SERVER, "server", kind, keys, 1000000, "--set",
                                             "net.meet_s=20", "--set", "net.majority_wait_s=20")
                self.assertEqual(code, 3, text)
                self.assertIn(f"the server is lost: site {SERVER}", text)
                self.assertIn("resume", text)

    def test_a_server_with_a_standby_is_followed_by_a_worker(self):
        for kind, keys, rounds in SERVED:
            with self.subTest(kind=kind):
                done = self.expect_others_go_on(SERVER, "server", kind, keys, rounds, "--set",
                                                "server.standby_every=20")
                self.assertEqual(len({one["params_hash"] for one in done}), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
