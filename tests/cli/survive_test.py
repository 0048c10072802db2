#!/usr/bin/env python3
"""Runs that survive: sites that are killed, restarted, resumed and missing.

    LONGHAUL=build/release/longhaul tests/cli/survive_test.py
    LONGHAUL_ALL=1 ...     also what takes longer
"""
import json
import os
import shutil
import signal
import time
import unittest

import launch_test
from cli_test import PATIENCE_S
from launch_test import ALL, GONE, LOSE, PACED, SITES, SLOWER, job_of
from ports import free_addresses

BSP = ["--set", "sync.kind=bsp", "--set", "overlay.kind=direct"]
ROUNDS = ["--set", "stop.max_rounds=600", "--set", "report.every_rounds=50"]
FOREVER = ["--set", "stop.max_rounds=100000", "--set", "report.every_rounds=50"]


class Survive(launch_test.Case):
    def kill(self, launch, name):
        os.kill(self.sites_of(launch)[name], signal.SIGKILL)

    def events(self, name):
        return [json.loads(line) for line in
                (self.folder / f"runs/small/{name}/metrics.jsonl").read_text().splitlines()]


class Restarted(Survive):
    def status(self, name):
        return json.loads((self.folder / f"runs/small/{name}/status.json").read_text())

    def activity(self, name):
        return json.loads((self.folder / f"runs/small/{name}/activity.json").read_text())

    def told_share(self):
        """Of the run's bytes, those in the sites' activity: all but the heads of frames."""
        links = sum(link[2] for name in SITES for link in self.activity(name)["links"])
        return links / self.summary()["wan_bytes"]

    def test_a_killed_site_is_started_again_and_rejoins(self):
        launch = self.start("launch", "job.toml", *PACED, *FOREVER)
        self.until_checkpoints(launch, SITES)
        before = self.status("oslo")["wan_bytes"]
        self.kill(launch, "oslo")
        for text in ("launch: oslo has ended (killed by signal 9); starts it again, 1 of 3 times",
                     "rank 2 (oslo) is declared lost", "the run goes on with 2 of 3 nodes",
                     "tokyo: rank 2 (oslo) is back; the run goes on with 3 of 3 nodes"):
            self.until(launch, text)
        self.until_gone_on(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        self.assertEqual([one["values"]["live"] for one in self.events("tokyo")
                          if one["kind"] == "view"], [2, 3])
        self.assertEqual(self.summary()["members"], 3)
        self.assertEqual(self.summary()["live"], 3)
        # A round without one of three counts two thirds; no live one was left out.
        self.assertLess(self.summary()["participation"], 1)
        self.assertGreater(self.summary()["participation"], 2 / 3)
        self.assertGreater(self.summary("runs/small/oslo")["wan_bytes"], before)
        share = self.told_share()
        # All three go on from there, with what they did before.
        sent = self.summary()["wan_bytes"]
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, "--resume")
        self.until(launch, "resumes from checkpoint")
        self.until_gone_on(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        self.assertGreater(self.summary()["wan_bytes"], sent)
        self.assertAlmostEqual(self.told_share(), share, delta=0.05)
        lost = [site["lost"] for site in self.activity("tokyo")["sites"] if site["name"] == "oslo"]
        self.assertEqual(len(lost[0]), 1)

    def test_the_samples_of_a_killed_site_are_counted(self):
        """Every round has 3 contributions, but for those that a worker was left out of."""
        batch = 8
        launch = self.start("launch", "job.toml", *BSP, *PACED, *FOREVER,
                            "--set", f"data.batch={batch}")
        self.until_checkpoints(launch, SITES)
        self.kill(launch, "oslo")
        self.until(launch, "tokyo: rank 2 (oslo) is back")
        self.until_gone_on(launch, SITES)
        self.kill(launch, "lima")
        self.until(launch, "tokyo: rank 1 (lima) is back")
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        end = self.summary()
        samples = end["samples"]
        self.assertEqual(samples["used"] + samples["lost"] + samples["unused"],
                         samples["computed"])
        # Of a process that was killed one batch at most was in no mean.
        self.assertLessEqual(samples["lost"], 2 * batch)
        self.assertLessEqual(samples["unused"], 3 * batch)
        rounds = end["rounds"]
        self.assertLess(samples["used"], 3 * batch * rounds)
        self.assertGreater(samples["used"], 2 * batch * rounds)

    def test_one_of_two_goes_on_with_a_witness(self):
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, *GONE, "--set",
                            'site.oslo.roles=["witness"]')
        self.until_checkpoints(launch, SITES[:2])
        self.kill(launch, "lima")
        self.until(launch, "the run goes on with 2 of 3 nodes")
        self.until_gone_on(launch, ["tokyo"])
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)

    def test_too_little_participation_ends_the_run_where_the_job_says_so(self):
        # In the round of its return a site is live and not counted.
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, "--set",
                            "run.min_participation=0.9", "--set", "run.participation_rounds=1",
                            "--set", "run.on_low_participation=end")
        self.until_checkpoints(launch, SITES)
        self.kill(launch, "oslo")
        code, text = self.end(launch)
        self.assertEqual(code, 1, text)
        self.assertIn("participation is 66.7 % over the last 1 rounds, below", text)
        self.assertEqual(self.summary("runs/small/tokyo")["stop_reason"], "participation")

    def test_where_no_majority_is_left_all_resume_to_the_same_bits(self):
        self.write(job_of(SITES[:2]))
        sets = [*BSP, *ROUNDS, *SLOWER, *LOSE]
        expected = self.simulated_hash(*sets, "--out", "runs/simulated")
        launch = self.start("launch", "job.toml", *sets)
        self.until_checkpoints(launch, SITES[:2])
        for pid in self.sites_of(launch).values():
            os.kill(pid, signal.SIGKILL)
        code, text = self.end(launch)
        self.assertEqual(code, 0, text)
        self.assertIn("starts it again", text)
        self.assertIn("resumes from checkpoint", text)
        self.assertEqual(self.summary()["params_hash"], expected)

    @unittest.skipUnless(ALL, "takes 20 s")
    def test_without_restarts_a_run_that_cannot_go_on_ends_and_is_resumed(self):
        self.write(job_of(SITES[:2]))
        sets = [*BSP, *ROUNDS, *SLOWER, *LOSE]
        launch = self.start("launch", "job.toml", *sets, "--max-restarts", "0", "--set",
                            "net.majority_wait_s=3")
        self.until_checkpoints(launch, SITES[:2])
        self.kill(launch, "lima")
        code, text = self.end(launch)
        self.assertEqual(code, 3, text)
        self.assertIn("agreement needs 2 of the 2 members", text)
        self.assertNotIn("starts it again", text)
        self.says("launch", "job.toml", *sets, "--resume")
        self.assertEqual(self.summary()["rounds"], 600)


class Resumed(Survive):
    def test_an_end_that_is_behind_is_refused(self):
        for sync in ("gaia", "nbsync", "bsp") if ALL else ("gaia",):  # gaia and nbsync would hang
            with self.subTest(sync=sync):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                sets = [*PACED, *FOREVER, "--set", f"sync.kind={sync}"]
                launch = self.start("launch", "job.toml", *sets)
                self.until_checkpoints(launch, SITES)
                launch.send_signal(signal.SIGINT)
                self.assertEqual(self.end(launch)[0], 130)
                code, text = self.end(self.start("launch", "job.toml", *sets, "--resume", "--set",
                                                 "stop.max_rounds=1"))
                self.assertEqual(code, 2)
                self.assertIn("[stop] max_rounds = 1: the run has done", text)
                self.assertNotIn("starts it again", text)  # it would end the same
                summary = json.loads((self.folder / "runs/small/summary.json").read_text())
                self.assertEqual(summary["stop_reason"], "interrupted")
                launch = self.start("launch", "job.toml", *sets, "--resume")
                self.until_gone_on(launch, SITES)
                launch.kill()
                launch.wait()

    def test_a_run_goes_on_after_a_loss_and_ctrl_c(self):
        for sync in ("fedavg", "nbsync") if ALL else ("fedavg",):
            with self.subTest(sync=sync):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                sets = [*PACED, *FOREVER, *LOSE, "--set", f"sync.kind={sync}"]
                launch = self.start("launch", "job.toml", *sets, "--max-restarts", "0")
                self.until_checkpoints(launch, SITES)
                self.kill(launch, "oslo")
                self.until(launch, "the run goes on with 2 of 3 nodes")
                for _ in range(4):  # oslo's checkpoints are older than any that is kept
                    self.until_gone_on(launch, SITES[:2])
                launch.send_signal(signal.SIGINT)
                self.assertEqual(self.end(launch)[0], 130)
                launch = self.start("launch", "job.toml", *sets, "--max-restarts", "0", "--resume")
                self.until(launch, "the run resumes with 2 of 3 nodes")
                self.until(launch, "tokyo: rank 2 (oslo) is back")
                self.until_gone_on(launch, SITES)
                launch.kill()
                launch.wait()

    def test_with_fewer_sites(self):
        sets = [*SLOWER, *ROUNDS, *LOSE, "--set", "net.meet_s=15"]
        addresses = free_addresses(3)
        launch = self.start("launch", "job.toml", *sets)
        self.until_checkpoints(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        sites = [self.start("site", "job.toml", "--site", name, "--addresses", addresses, "--out",
                            f"runs/small/{name}", *sets) for name in SITES[:2]]
        for site in sites:
            code, text = self.end(site)
            self.assertEqual(code, 0, text)
            self.assertIn("rank 2 (oslo)", text)
            self.assertIn("The run resumes without them", text)
        self.assertEqual(len({self.summary(f"runs/small/{name}")["params_hash"]
                              for name in SITES[:2]}), 1)

    def test_without_a_site_by_name(self):
        sets = [*PACED, *FOREVER]
        launch = self.start("launch", "job.toml", *sets)
        self.until_checkpoints(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        left_out = ["--set", 'run.without=["oslo"]']
        launch = self.start("launch", "job.toml", *sets, *left_out, "--resume")
        self.until(launch, "oslo: [run] without leaves this site out")
        self.until(launch, "rank 2 (oslo) is declared lost: [run] without leaves it out; "
                           "the run goes on with 2 of 3 nodes")
        self.assertNotIn("not all nodes connected", self.said(launch), "nobody waits for it")
        self.until_gone_on(launch, SITES[:2])
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        self.assertEqual(self.summary()["live"], 2)
        # It is no longer left out.
        launch = self.start("launch", "job.toml", *sets, "--resume")
        self.until(launch, "tokyo: rank 2 (oslo) is back; the run goes on with 3 of 3 nodes")
        self.until_gone_on(launch, SITES)
        launch.kill()
        launch.wait()
        dealt = self.run_ok("explain", "job.toml", *left_out).stdout
        self.assertRegex(dealt, r"(?m)^oslo( +0)+$", "its data is dealt to the others")
        self.bad("launch", "job.toml", *sets, "--set", 'run.without=["olso"]',
                 names=["[run] without", "oslo"])
        self.bad("simulate", "job.toml", *left_out,
                 names=["[run] without is for site and launch"])

    def test_with_one_more_site(self):
        sets = [*PACED, *FOREVER]
        launch = self.start("launch", "job.toml", *sets)
        self.until_checkpoints(launch, SITES)
        self.until_gone_on(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        rounds = self.summary()["rounds"]
        self.write(job_of(["cairo", *SITES]))
        self.bad("launch", "job.toml", "--resume", *sets,
                 names=["[[site]] 1: was tokyo, is cairo; sites are added after all others"])
        self.write(job_of([*SITES, "cairo"]))
        self.bad("simulate", "job.toml", "--resume", "--out", "runs/small/tokyo", *sets,
                 names=["of 3 sites, the job has 4: a run gets sites over sockets"])
        launch = self.start("launch", "job.toml", *sets, "--resume")
        for text in ("the run resumes with 3 of 4 nodes",
                     "tokyo: rank 3 (cairo) is back; the run goes on with 4 of 4 nodes"):
            self.until(launch, text)
        self.until_gone_on(launch, [*SITES, "cairo"])
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        self.assertGreater(self.summary()["rounds"], rounds)
        self.assertEqual({self.summary(f"runs/small/{name}")["members"]
                          for name in [*SITES, "cairo"]}, {4})
        self.says("launch", "job.toml", "--resume", *PACED, "--set", "report.every_rounds=50",
                  "--set", f"stop.max_rounds={self.summary()['rounds'] + 50}")
        self.assertEqual(len({self.summary(f"runs/small/{name}")["params_hash"]
                              for name in [*SITES, "cairo"]}), 1)

    def test_a_strategy_that_takes_no_site_back_gets_none(self):
        sets = [*PACED, *FOREVER, "--set", "sync.kind=skewscout"]
        launch = self.start("launch", "job.toml", *sets)
        self.until_checkpoints(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)
        self.write(job_of([*SITES, "cairo"]))
        code, text = self.end(self.start("launch", "job.toml", *sets, "--resume"))
        self.assertEqual(code, 2, text)
        self.assertIn('with [sync] kind = "skewscout" a run that has begun gets no sites', text)

    def test_with_more_rounds(self):
        more = ["--set", "stop.max_rounds=70", "--set", "report.every_rounds=7"]
        expected = self.simulated_hash(*more, "--out", "runs/expected")
        for command in ("simulate", "launch"):
            with self.subTest(command=command):
                shutil.rmtree(self.folder / "runs/small", ignore_errors=True)
                self.run_ok(command, "job.toml", "--quiet")
                self.assertEqual(self.summary()["rounds"], 40)
                self.run_ok(command, "job.toml", "--quiet", "--resume", *more)
                self.assertEqual(self.summary()["rounds"], 70)
                self.assertEqual(self.summary()["params_hash"], expected)

    def test_other_changes_are_refused_by_key(self):
        self.run_ok("simulate", "job.toml", "--quiet")
        self.bad("simulate", "job.toml", "--resume", "--set", "sync.steps=7",
                 names=["[sync] steps: was 3, is 7", "[stop], [report] and [run] may change"])


class OneCommand(Survive):
    """`longhaul site JOB --site NAME`, whatever has happened."""

    def setUp(self):
        super().setUp()
        self.addresses = free_addresses(3)
        self.sets = [*PACED, *FOREVER]

    def site(self, name, *more):
        return self.start("site", "job.toml", "--site", name, "--addresses", self.addresses,
                          *self.sets, *more)

    def test_joins_rejoins_and_resumes(self):
        sites = {name: self.site(name) for name in SITES}
        self.until_checkpoints(sites["tokyo"], SITES)
        sites["lima"].kill()
        sites["lima"].wait()
        sites["lima"] = self.site("lima")
        self.until(sites["lima"], "asks to rejoin")
        self.until(sites["tokyo"], "rank 1 (lima) is back")
        self.until_gone_on(sites["tokyo"], ["lima"])
        lost = [one["time_s"] for one in self.events("tokyo") if one["kind"] == "view"][0]
        # The run's time goes on at a site that has come back, which writes what it did each second.
        end = time.monotonic() + PATIENCE_S
        while self.events("lima")[-1]["time_s"] <= lost:
            self.assertLess(time.monotonic(), end, self.said(sites["lima"])[-3000:])
            time.sleep(0.05)
        # Another machine, without a folder: the same.
        sites["oslo"].kill()
        sites["oslo"].wait()
        sites["oslo"] = self.site("oslo", "--out", "elsewhere")
        self.until(sites["tokyo"], "rank 2 (oslo) is back")
        sites["oslo"].kill()
        sites["oslo"].wait()
        shutil.rmtree(self.folder / "runs/small/oslo")
        shutil.move(self.folder / "elsewhere", self.folder / "runs/small/oslo")
        sites["oslo"] = self.site("oslo")
        self.until(sites["oslo"], "asks to rejoin")
        end = time.monotonic() + PATIENCE_S
        while self.said(sites["tokyo"]).count("rank 2 (oslo) is back") < 2:
            self.assertLess(time.monotonic(), end, self.said(sites["tokyo"]))
            time.sleep(0.05)
        self.until_gone_on(sites["tokyo"], SITES)
        for site in sites.values():
            site.send_signal(signal.SIGINT)
        for site in sites.values():
            self.assertEqual(self.end(site)[0], 130)
        sites = {name: self.site(name) for name in SITES}
        for site in sites.values():
            self.until(site, "resumes from checkpoint")

    def test_a_worker_of_bsp_and_of_asp_comes_back_and_the_run_ends(self):
        for kind in ("bsp", "asp"):
            with self.subTest(kind):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                self.addresses = free_addresses(3)
                of_kind = ["--set", f"sync.kind={kind}", "--set", "optimizer.momentum=0.9", *PACED]
                self.sets = [*of_kind, *FOREVER]
                sites = {name: self.site(name) for name in SITES}
                self.until_checkpoints(sites["tokyo"], SITES)
                sites["lima"].kill()
                sites["lima"].wait()
                sites["lima"] = self.site("lima")
                self.until(sites["tokyo"], "rank 1 (lima) is back")
                self.until_gone_on(sites["tokyo"], SITES)
                for site in sites.values():
                    site.send_signal(signal.SIGINT)
                for site in sites.values():
                    self.assertEqual(self.end(site)[0], 130)
                # The end is set now: however fast the machine, it is not over before the return.
                rounds = self.summary("runs/small/tokyo")["rounds"] + 50
                self.sets = [*of_kind, "--set", f"stop.max_rounds={rounds}",
                             "--set", "report.every_rounds=50"]
                for site in [self.site(name) for name in SITES]:
                    code, text = self.end(site)
                    self.assertEqual(code, 0, text)
                done = [self.summary(f"runs/small/{name}") for name in SITES]
                self.assertEqual(len({one["params_hash"] for one in done}), 1, done)
                self.assertEqual({one["rounds"] for one in done}, {rounds})
                self.assertEqual({one["live"] for one in done}, {3})

    def test_a_run_that_is_over_is_left_alone(self):
        self.sets = ["--set", "stop.max_rounds=20"]
        for site in [self.site(name) for name in SITES]:
            self.assertEqual(self.end(site)[0], 0)
        before = (self.folder / "runs/small/lima/summary.json").read_text()
        for flags in ([], ["--rejoin"], ["--resume"]):
            code, text = self.end(self.site("lima", *flags))
            self.assertEqual(code, 0, text)
            self.assertIn("20 rounds", text)
            self.assertIn("over already", text)
        self.assertEqual((self.folder / "runs/small/lima/summary.json").read_text(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
