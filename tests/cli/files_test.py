#!/usr/bin/env python3
"""The files of a run that people count on: models, metrics, checkpoints, folders, errors.

    LONGHAUL=build/release/longhaul tests/cli/files_test.py
"""
import json
import os
import resource
import shutil
import signal
import time
import unittest
import zipfile

import launch_test
from cli_test import PATIENCE_S
from effort import GATE, chosen, light, nightly
from launch_test import PACED, SITES, job_of
from ports import free_addresses, free_ports

FOREVER = ["--set", "stop.max_rounds=100000", "--set", "report.every_rounds=50"]


class Case(launch_test.Case):
    def until_file(self, process, path):
        end = time.monotonic() + PATIENCE_S
        while not (self.folder / path).exists() or (self.folder / path).stat().st_size == 0:
            self.assertIsNone(process.poll(), self.said(process))
            self.assertLess(time.monotonic(), end, self.said(process))
            time.sleep(0.02)


class Models(Case):
    def evaluated(self, run="runs/small"):
        return json.loads(self.run_ok("evaluate", run, "--json").stdout)

    @nightly
    def test_a_target_is_reached_by_the_model_that_is_saved(self):
        # The run goes on for 12 rounds after the target, and ends with a worse model.
        sets = ["--set", "stop.target_accuracy=0.51", "--set", "report.every_rounds=1",
                "--set", "report.lag=12", "--set", "optimizer.rate=0.3", "--set", "data.noise=3"]
        self.run_ok("simulate", "job.toml", "--quiet", *sets)
        summary = self.summary()
        self.assertIsNotNone(summary["time_to_target_s"])
        self.assertLess(summary["final_accuracy"], 0.51)
        accuracy = self.evaluated()["accuracy"]
        self.assertGreaterEqual(accuracy, 0.51)
        self.assertEqual(summary["model_is"], "best")
        self.assertAlmostEqual(summary["best_accuracy"], accuracy)
        for name in ("best.pt", "last.pt", "model.pt"):
            self.assertTrue((self.folder / "runs/small" / name).exists(), name)

    @nightly
    def test_a_final_model_above_the_target_has_reached_it(self):
        self.run_ok("simulate", "job.toml", "--quiet", "--set", "stop.target_accuracy=0.9",
                    "--set", "report.every_rounds=1000", code=0)
        summary = self.summary()
        self.assertEqual(summary["stop_reason"], "target")
        self.assertEqual(summary["time_to_target_s"], summary["time_s"])
        events = (self.folder / "runs/small/metrics.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(events[-1])["kind"], "score")

    @nightly
    def test_esync_is_scored_by_the_samples_that_it_uses(self):
        self.write(job_of(SITES).replace("every_rounds = 10\n", ""))
        self.run_ok("simulate", "job.toml", "--quiet", "--set", "sync.kind=esync", "--set",
                    "report.every_samples=400", "--set", "site.tokyo.step_ms=1")
        lines = (self.folder / "runs/small/metrics.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        steps = sum(one["values"]["value"] for one in events if one["kind"] == "steps")
        scores = sum(one["kind"] == "score" for one in events)
        self.assertAlmostEqual(scores / (steps * 8 / 400), 1, delta=0.5)

    def test_there_is_a_model_after_ctrl_c_and_checkpoints_can_be_exported(self):
        for command in chosen((["simulate"], ["launch", *PACED]), 0):
            with self.subTest(command=command):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                process = self.start(command[0], "job.toml", *command[1:], *FOREVER)
                folder = "runs/small" + ("/tokyo" if command[0] == "launch" else "")
                self.until_file(process, folder + "/checkpoints")
                process.send_signal(signal.SIGINT)
                self.assertEqual(self.end(process)[0], 130)
                if not GATE:
                    self.assertGreater(self.evaluated()["accuracy"], 0.5)
                text = self.run_ok("export", folder).stdout
                self.assertIn("exported.pt", text)
                shutil.copy(self.folder / folder / "exported.pt", self.folder / folder / "model.pt")
                exported = self.evaluated(folder)
                self.assertGreater(exported["accuracy"], 0.5)
                if command[0] == "simulate":  # over sockets steps go on after the checkpoint
                    self.assertEqual(exported["params_hash"], self.summary(folder)["params_hash"])

    def test_export_says_what_is_wrong(self):
        self.write(light(job_of(SITES)))
        self.bad("export", "nowhere", names=["nowhere: no such checkpoint"])
        self.run_ok("simulate", "job.toml", "--quiet", "--set", "job.checkpoint_every=0")
        self.bad("export", "runs/small", names=["no checkpoint in runs/small/checkpoints"])
        self.run_ok("simulate", "job.toml", "--quiet", "--force", "--checkpoint-every", "10")
        file = next((self.folder / "runs/small/checkpoints").glob("*.checkpoint"))
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        self.bad("export", file, names=["checksum"])

    @nightly
    def test_metrics_can_be_read_while_the_run_goes_on(self):
        launch = self.start("launch", "job.toml", *FOREVER, *PACED)
        self.until_file(launch, "runs/small/tokyo/metrics.jsonl")
        self.until_file(launch, "runs/small/oslo/metrics.jsonl")
        os.kill(self.sites_of(launch)["oslo"], signal.SIGKILL)
        for name in ("tokyo", "oslo"):
            text = (self.folder / f"runs/small/{name}/metrics.jsonl").read_text()
            self.assertIn("time_s", json.loads(text.splitlines()[0]))
        launch.kill()

    def test_so_many_checkpoints_are_kept(self):
        self.write(light(job_of(SITES)))
        self.run_ok("simulate", "job.toml", "--quiet", "--checkpoint-every", "5", "--set",
                    "job.keep_checkpoints=4")
        kept = sorted(path.name for path in (self.folder / "runs/small/checkpoints").iterdir())
        self.assertEqual(kept, [f"{round:012}.checkpoint" for round in (20, 25, 30, 35)])


# A limit on the size of files stands for a disk without room: write() answers with an error, and
# it can be lifted while the process runs.
class FullDisk(Case):
    def fill(self, pid, size=2000):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def make_room(self, pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def rounds(self, path):
        """Those whose training loss is in the file: each once, none missing."""
        events = [json.loads(line) for line in (self.folder / path).read_text().splitlines()]
        return [one["round"] for one in events if one["kind"] == "train_loss"]

    def rounds_done(self):
        return json.loads((self.folder / "runs/small/status.json").read_text())["rounds"]

    def until_rounds_more(self, process, count):
        begun, end = self.rounds_done(), time.monotonic() + PATIENCE_S
        while self.rounds_done() < begun + count:
            self.assertIsNone(process.poll(), self.said(process))
            self.assertLess(time.monotonic(), end, self.said(process))
            time.sleep(0.02)

    @nightly
    def test_a_site_whose_disk_is_full_goes_on(self):
        launch = self.start("launch", "job.toml", *PACED, *FOREVER)
        self.until_checkpoints(launch, SITES)
        oslo = self.sites_of(launch)["oslo"]
        self.fill(oslo)
        self.until(launch, "tried again each 2 s: make room")
        self.until(launch, "oslo: runs/small/oslo/metrics.jsonl: writing it failed: File too large")
        self.make_room(oslo)
        self.until(launch, "oslo: metrics.jsonl is written again")
        self.until(launch, "is written\n")
        launch.send_signal(signal.SIGINT)
        code, text = self.end(launch)
        self.assertEqual(code, 130, text)
        self.assertNotIn("lost", text)
        rounds = self.rounds("runs/small/oslo/metrics.jsonl")
        self.assertEqual(rounds, list(range(rounds[-1] + 1)))
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, "--resume")
        self.until(launch, "oslo: resumes from checkpoint")
        launch.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launch)[0], 130)

    def test_a_simulation_whose_disk_is_full_goes_on(self):
        process = self.start("simulate", "job.toml", *FOREVER)
        self.until_file(process, "runs/small/best.pt")
        self.fill(process.pid)
        self.until(process, "no checkpoint of round ")  # one was perhaps being written
        checkpoints = self.folder / "runs/small/checkpoints"
        newest = max(checkpoints.glob("*.checkpoint"), default=None)
        # Of some checkpoints, which cannot be written.
        self.until_rounds_more(process, 50 if GATE else 300)
        self.assertEqual(max(checkpoints.glob("*.checkpoint"), default=None), newest)
        self.make_room(process.pid)
        self.until(process, "a checkpoint is written again")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process)[0], 130)
        rounds = sorted(set(self.rounds("runs/small/metrics.jsonl")))
        self.assertEqual(rounds, list(range(rounds[-1] + 1)))
        self.assertEqual(list((self.folder / "runs").rglob("*.tmp")), [])

    @nightly
    def test_a_model_that_cannot_be_kept_is_an_error_with_its_remedy(self):
        process = self.start("simulate", "job.toml", *FOREVER)
        self.until_file(process, "runs/small/best.pt")
        self.fill(process.pid)
        self.until_rounds_more(process, 1)  # or the last model is the best one, which is kept
        process.send_signal(signal.SIGINT)
        code, text = self.end(process)
        self.assertEqual(code, 2, text)
        self.assertIn("not all of it is kept: make room, and start again with --resume", text)


class Folders(launch_test.Case):
    def test_two_programs_in_one_folder_are_refused(self):
        self.write(light(job_of(SITES)))
        for command in chosen((["simulate"], ["launch", *PACED]), 0):
            with self.subTest(command=command):
                shutil.rmtree(self.folder / "runs", ignore_errors=True)
                first = self.start(command[0], "job.toml", *command[1:], *FOREVER)
                end = time.monotonic() + PATIENCE_S
                while not (self.folder / "runs/small/job.toml").exists():
                    self.assertLess(time.monotonic(), end, self.said(first))
                    time.sleep(0.02)
                for flag in ("--resume", "--force"):
                    self.bad("simulate", "job.toml", flag, *FOREVER,
                             names=[f"process {first.pid} on ", "uses it", "--out"])
                self.assertIsNone(first.poll(), self.said(first))
                first.kill()
                first.wait()
        # The kernel has freed the lock of a killed one.
        self.run_ok("simulate", "job.toml", "--force", "--quiet", "--set", "stop.max_rounds=3")

    def test_only_user_and_group_can_read_a_run(self):
        for mask, others in ((0o000, 0o027), (0o077, 0o077)):
            before = os.umask(mask)
            try:
                self.run_ok("simulate", "job.toml", "--force", "--quiet", "--tensorboard",
                            "--record", "--set", "stop.max_rounds=3", "--set",
                            "job.checkpoint_every=1", "--out", f"run-{mask}")
            finally:
                os.umask(before)
            files = list((self.folder / f"run-{mask}").rglob("*"))
            self.assertGreater(len(files), 8)
            self.assertEqual([path.name for path in files if path.stat().st_mode & others], [])

    @nightly
    def test_processes_of_a_launcher_have_folders_of_their_own(self):
        base = free_ports(len(SITES))[0]
        ranks = [self.start("site", "job.toml", "--out", "runs/mp", "--base-port", base, env={
            "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "3"}) for rank in range(3)]
        for rank in ranks:
            self.assertEqual(self.end(rank)[0], 0, self.said(rank))
        self.assertEqual(len({self.summary(f"runs/mp/{name}")["params_hash"] for name in SITES}), 1)

    def test_matrices_stand_beside_the_job_file(self):
        (self.folder / "jobs").mkdir()
        (self.folder / "jobs/mbps.csv").write_text(
            "src,tokyo,lima,oslo\ntokyo,,8,9\nlima,8,,7\noslo,9,7,\n")
        self.write(light(job_of(SITES)) + '[wan]\nmbps_csv = "mbps.csv"\n', "jobs/job.toml")
        first = self.run_ok("simulate", "jobs/job.toml", "--quiet", "--json").stdout
        again = self.run_ok("simulate", "runs/job/job.toml" if (
            self.folder / "runs/job").exists() else "runs/small/job.toml", "--quiet", "--json",
            "--out", "again").stdout
        self.assertEqual(json.loads(first)["time_s"], json.loads(again)["time_s"])


class Identity(launch_test.Case):
    def test_the_file_and_the_name_are_no_part_of_the_job(self):
        for name in ("one.toml", "two.toml"):
            self.write(light(job_of(SITES)).replace('name = "small"\n', ""), name)
        hashes = {json.loads(self.run_ok("simulate", name, "--quiet", "--json").stdout)["job_hash"]
                  for name in ("one.toml", "two.toml")}
        self.assertEqual(len(hashes), 1)

    @nightly
    def test_jobs_that_differ_name_the_key_and_both_values(self):
        addresses = free_addresses(3)
        first = self.start("site", "job.toml", "--site", "tokyo", "--addresses", addresses,
                           "--out", "a", "--set", "sync.steps=4")
        other = self.start("site", "job.toml", "--site", "lima", "--addresses", addresses, "--out",
                           "b", "--quiet")
        for site in (first, other):
            code, text = self.end(site, timeout=60)  # long before [net] meet_s
            self.assertEqual(code, 2, text)
            self.assertIn("site lima runs another job than site tokyo: [sync] steps is 4 at tokyo "
                          "and 3 at lima", text)

    @nightly
    def test_a_site_behind_nat_listens_elsewhere(self):
        inner, = free_ports(1)
        proxy = launch_test.Proxy(inner, launch_test.Cuts(0, 0))
        self.addCleanup(proxy.listener.close)
        own = free_addresses(2).split(",")
        addresses = [own[0], own[1], f"127.0.0.1:{proxy.port}"]
        sets = [word for name, address in zip(SITES, addresses)
                for word in ("--set", f"site.{name}.address={address}")]
        sites = [self.start("site", "job.toml", "--site", name, "--out", name, *sets, "--set",
                            f"site.oslo.bind=127.0.0.1:{inner}") for name in SITES]
        for site in sites:
            self.assertEqual(self.end(site)[0], 0, self.said(site))


class Words(launch_test.Case):
    def test_five_mistakes_are_told_at_once(self):
        text = job_of(SITES)
        for old, new in [("[stop]\n", "[stop]\nmax_roundz = 3\n"), ("batch = 8", 'batch = "8"'),
                         ('kind = "hub"', 'kind = "hubb"'),
                         ('name = "lima"', 'name = "lima"\nup_mbps = 0')]:
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.write(text + "[wann]\n")
        done = self.longhaul("simulate", "job.toml")
        self.assertEqual(done.returncode, 2)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 5, done.stderr)
        for line, words in zip(lines, [("[stop] max_roundz", "'max_rounds'"),
                                       ("[data] batch", "whole number"),
                                       ("[overlay] kind", "'hub'"),
                                       ("[site.lima] up_mbps", "above 0"), ("[wann]", "'wan'")]):
            self.assertRegex(line, r"job.toml:\d+: ")
            for word in words:
                self.assertIn(word, line)

    def test_a_key_without_effect_is_named_with_both_remedies(self):
        self.write(job_of(SITES) + "[wan]\nloss = 0.02\n")
        self.bad("simulate", "job.toml", names=[
            'loss = 0.02 has no effect with [wan] model = "fifo". Set model = "fair", or remove '
            "loss"])

    def test_a_torch_save_file_is_no_model_and_the_remedy_is_named(self):
        with zipfile.ZipFile(self.folder / "saved.pt", "w") as file:
            file.writestr("saved/data.pkl", "weights")
        self.bad("simulate", "job.toml", "--set", "model.kind=script", "--set",
                 "model.path=saved.pt",
                 names=["this is a torch.save file; use torch.jit.script(model).save(path)"])

    def test_exit_codes(self):
        below = ["--quiet", "--force", "--set", "stop.target_accuracy=1"]
        light_job = self.write(light(job_of(SITES)), "light.toml")
        self.run_ok("simulate", light_job, *below)
        self.assertIsNone(self.summary()["time_to_target_s"])
        self.run_ok("simulate", light_job, *below, "--require-target", code=1)
        self.run_ok("simulate", light_job, *below, "--set", "stop.max_hours=0.0001")
        if not GATE:
            self.run_ok("launch", "job.toml", *below)
            self.run_ok("launch", "job.toml", *below, "--require-target", code=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
