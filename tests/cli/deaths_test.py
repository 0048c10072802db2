#!/usr/bin/env python3
"""Several sites of a real run die at once, or stand still: the others wait or continue, and take
them back.

    LONGHAUL=build/release/longhaul tests/cli/deaths_test.py
    DEATHS_SECONDS=1200 ...     draws who dies, when and how for so long (default 1200)
"""
import json
import os
import random
import shutil
import signal
import time

import launch_test
from cli_test import PATIENCE_S
from effort import nightly
from ports import free_addresses

SITES = ["tokyo", "lima", "oslo", "paris", "cairo"]
SETS = ["--set", "net.pace=true", "--set", "site.*.step_ms=10", "--set", "sync.steps=1",
        "--set", "overlay.kind=direct", "--set", "report.every_rounds=100",
        "--set", "net.meet_s=30", "--set", "net.silence_s=6"]
FOREVER = ["--set", "stop.max_rounds=1000000"]


class Deaths(launch_test.Case):
    def status(self, name):
        try:
            return json.loads((self.folder / f"runs/small/{name}/status.json").read_text())
        except (OSError, ValueError):
            return {"rounds": 0}

    def begin(self, count, *more):
        self.names = SITES[:count]
        self.write(launch_test.job_of(self.names))
        launch = self.start("launch", "job.toml", *SETS, *more)
        self.until_checkpoints(launch, self.names)
        return launch

    def until_all_train(self, launch, names=None):
        """Each of these has done a round more than any had, and all are members."""
        most = max(self.status(name)["rounds"] for name in self.names)
        end = time.monotonic() + PATIENCE_S
        while any(self.status(name)["rounds"] <= most for name in names or self.names):
            self.assertIsNone(launch.poll(), self.said(launch)[-3000:])
            self.assertLess(time.monotonic(), end, self.said(launch)[-3000:])
            time.sleep(0.05)

    def stop(self, launch):
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)

    def hit(self, launch, names, number):
        sites = self.sites_of(launch)
        for name in names:
            os.kill(sites[name], number)

    def test_one_of_two_is_taken_back(self):
        launch = self.begin(2, *FOREVER)
        self.hit(launch, ["tokyo"], signal.SIGKILL)
        self.until(launch, "lima: rank 0 (tokyo) is back; the run goes on with 2 of 2 nodes")
        self.until_all_train(launch)
        self.stop(launch)
        self.assertEqual(self.summary()["live"], 2)

    @nightly
    def test_two_of_four_are_taken_back(self):
        launch = self.begin(4, *FOREVER)
        self.hit(launch, ["lima", "paris"], signal.SIGKILL)
        self.until(launch, "is back; the run goes on with 4 of 4 nodes")  # either may be first
        self.until_all_train(launch)
        self.stop(launch)

    @nightly
    def test_without_a_majority_the_living_wait_and_say_so(self):
        launch = self.begin(2, *FOREVER, "--max-restarts", "0", "--set", "net.silence_s=1",
                            "--set", "net.majority_wait_s=4")
        self.hit(launch, ["lima"], signal.SIGKILL)
        self.until(launch, "waiting for a majority: rank 1 (lima); agreement needs 2 of the 2")
        code, text = self.end(launch)
        self.assertEqual(code, 3, text)
        self.assertIn("lost rank 1 (lima) for 4 s; agreement needs 2 of the 2 members", text)

    @nightly
    def test_the_named_site_continues_alone(self):
        launch = self.begin(2, *FOREVER, "--max-restarts", "0", "--set", "net.silence_s=1",
                            "--set", "net.continue_with=tokyo")
        self.hit(launch, ["lima"], signal.SIGKILL)
        self.until(launch, "the run goes on with 1 of 2 nodes")
        self.until_all_train(launch, ["tokyo"])
        self.stop(launch)

    @nightly
    def test_a_process_that_is_gone_is_not_waited_for(self):
        """Its machine says that nobody listens; it would be silent for long."""
        self.names = SITES[:2]
        self.write(launch_test.job_of(self.names))
        addresses = free_addresses(2)
        sets = [*SETS, *FOREVER, "--set", "net.silence_s=1000"]
        for gone in self.names:
            with self.subTest(gone=gone):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                left = next(name for name in self.names if name != gone)
                sites = {name: self.start("site", "job.toml", "--site", name, "--addresses",
                                          addresses, "--out", f"runs/small/{name}", *sets, "--set",
                                          f"net.continue_with={left}") for name in self.names}
                self.until_checkpoints(sites[left], self.names)
                sites[gone].kill()
                self.until(sites[left], "the run goes on with 1 of 2 nodes")
                self.until_all_train(sites[left], [left])
                self.stop(sites[left])

    @nightly
    def test_who_stood_still_continues_with_the_others(self):
        for count, names in ((2, ["lima"]), (4, ["lima", "paris"]), (3, ["oslo"])):
            with self.subTest(count=count):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                launch = self.begin(count, *FOREVER)
                sites = self.sites_of(launch)
                self.hit(launch, names, signal.SIGSTOP)
                time.sleep(8)
                self.hit(launch, names, signal.SIGCONT)
                self.until_all_train(launch)
                self.assertEqual(self.sites_of(launch), sites, "no process has ended")
                self.stop(launch)

    @nightly
    def test_five_started_by_hand_lose_three_and_get_two_back(self):
        self.names = SITES
        self.write(launch_test.job_of(SITES))
        addresses = free_addresses(5)
        sets = [*SETS, *FOREVER]

        def site(name):
            return self.start("site", "job.toml", "--site", name, "--addresses", addresses,
                              "--out", f"runs/small/{name}", *sets)
        sites = {name: site(name) for name in SITES}
        self.until_checkpoints(sites["tokyo"], SITES)
        for name in ("oslo", "paris", "cairo"):
            sites[name].kill()
            time.sleep(0.5)
        self.until(sites["tokyo"], "waiting for a majority")
        for name in ("oslo", "paris"):
            sites[name] = site(name)
        self.until_all_train(sites["tokyo"], SITES[:4])

    def begin_by_hand(self, count, *sets):
        """Sites until each has two checkpoints; answers with what starts one."""
        self.names = SITES[:count]
        self.write(launch_test.job_of(self.names))
        addresses = free_addresses(count)

        def site(name, *more, out=None):
            return self.start("site", "job.toml", "--site", name, "--addresses", addresses, "--out",
                              out or f"runs/small/{name}", *SETS, *FOREVER, *sets, *more)
        sites = {name: site(name) for name in self.names}
        self.until_checkpoints(sites["tokyo"], self.names)
        return site, sites

    @nightly
    def test_a_server_without_its_state_is_named_by_all(self):
        site, sites = self.begin_by_hand(3, "--set", "sync.kind=fedasync", "--set",
                                         "overlay.kind=hub", "--set", "job.checkpoint_every=5")
        self.until_later_checkpoints(self.names)
        sites["tokyo"].kill()
        sites["tokyo"].wait()
        shutil.rmtree(self.folder / "runs/small/tokyo")
        sites["tokyo"] = site("tokyo")
        for name in self.names:
            code, text = self.end(sites[name], timeout=60)
            self.assertEqual(code, 3, text)
            self.assertIn("the state of the server, site tokyo (rank 0), is gone: its folder has "
                          "no checkpoint", text, name)
            self.assertIn("[server] standby_every", text, name)

    @nightly
    def test_who_holds_what_is_said_by_all(self):
        site, sites = self.begin_by_hand(3, "--set", "job.checkpoint_every=5")
        self.until_later_checkpoints(self.names)
        for process in sites.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder / "runs/small/oslo")
        shutil.rmtree(self.folder / "runs/small/lima")
        for name in self.names:
            sites[name] = site(name)
            time.sleep(1.5)  # the others have met long before the last one comes
        for name in self.names:
            code, text = self.end(sites[name], timeout=60)
            self.assertEqual(code, 3, text)
            self.assertRegex(text, r"different states of the run: tokyo checkpoint \d+, lima none, "
                                   "oslo none", name)
            self.assertIn("nothing was begun or resumed", text, name)
            self.assertNotIn("params_hash", text, name)

    @nightly
    def test_what_is_of_another_site_is_refused(self):
        site, sites = self.begin_by_hand(2)
        sites["lima"].kill()
        sites["lima"].wait()
        runs = self.folder / "runs/small"
        code, text = self.end(site("lima", out="runs/small/tokyo"))
        self.assertEqual(code, 2, text)
        shutil.copytree(runs / "tokyo", runs / "copy")
        (runs / "copy/lock").unlink()
        code, text = self.end(site("lima", out="runs/small/copy"))
        self.assertEqual(code, 2, text)
        self.assertIn("is the run folder of site tokyo (rank 0), and this is site lima (rank 1)",
                      text)
        shutil.copy(runs / "tokyo/votes.bin", runs / "lima/votes.bin")
        code, text = self.end(site("lima"))
        self.assertEqual(code, 2, text)
        self.assertIn("votes.bin: of site tokyo (rank 0), and this is site lima (rank 1)", text)
        (runs / "lima/votes.bin").unlink()
        sites["lima"] = site("lima")
        self.until_all_train(sites["tokyo"])

    def until_later_checkpoints(self, names):
        """From a number that a run which begins anew does not have."""
        end = time.monotonic() + PATIENCE_S
        while not all(list((self.folder / f"runs/small/{name}/checkpoints").glob("*[3-9].*"))
                      for name in names):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    @nightly
    def test_whoever_dies_whenever(self):
        """Kills, and processes that stand still, drawn by chance; each time all train again."""
        seed = int(os.environ.get("DEATHS_SEED", time.time()))
        chance = random.Random(seed)
        end = time.monotonic() + float(os.environ.get("DEATHS_SECONDS", 1200))
        drawn = 0
        while time.monotonic() < end:
            shutil.rmtree(self.folder / "runs", ignore_errors=True)
            count = chance.choice([2, 3, 4, 5])
            launch = self.begin(count, *FOREVER, "--max-restarts", "1000", *chance.choice(
                [[], ["--set", f"net.continue_with={chance.choice(SITES[:count])}"]]))
            for _ in range(4):
                names = chance.sample(self.names, chance.randint(1, count))
                what = chance.choice(["kill", "kill", "kill one after the other", "stop"])
                with self.subTest(seed=seed, drawn=drawn, names=names, what=what):
                    time.sleep(chance.uniform(0, 1))
                    for name in names:
                        # One that is being started again is left alone.
                        pid = self.sites_of(launch).get(name)
                        if pid:
                            os.kill(pid, signal.SIGSTOP if what == "stop" else signal.SIGKILL)
                        if what.endswith("other"):
                            time.sleep(chance.uniform(0, 1.5))
                    if what == "stop":
                        time.sleep(chance.uniform(0, 12))
                        for name in names:
                            pid = self.sites_of(launch).get(name)
                            if pid:
                                os.kill(pid, signal.SIGCONT)
                    self.until_all_train(launch)
                drawn += 1
            self.stop(launch)
        print(f"{drawn} losses, seed {seed}")


if __name__ == "__main__":
    import unittest
    unittest.main()
