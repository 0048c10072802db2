#!/usr/bin/env python3
"""Signals, and disks that are slow, full or gone: what a run keeps.

    LONGHAUL=build/release/longhaul tests/cli/stop_test.py
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import launch_test
from cli_test import LONGHAUL, PATIENCE_S
from effort import GATE, light, nightly
from launch_test import PACED, SITES, job_of
from ports import free_addresses

FOREVER = ["--set", "stop.max_rounds=100000", "--set", "report.every_rounds=50"]
ASKED = ["--set", "job.checkpoint_every=0"]  # no checkpoint but those that are asked for


class Case(launch_test.Case):
    def checkpoints(self, folder):
        return sorted(path.name for path in (self.folder / folder / "checkpoints").glob("*"))

    def until_rounds(self, process, folders):
        """Until each of these folders tells of a round."""
        end = time.monotonic() + PATIENCE_S
        for folder in folders:
            rounds = 0
            while rounds == 0:
                self.assertIsNone(process.poll(), self.said(process))
                self.assertLess(time.monotonic(), end, self.said(process))
                with contextlib.suppress(OSError):
                    text = (self.folder / folder / "status.json").read_text()
                    rounds = json.loads(text)["rounds"]
                time.sleep(0.02)


class Signals(Case):
    def test_simulate_takes_a_checkpoint_and_a_hang_up_ends_it(self):
        self.write(light(job_of(SITES)))
        run = self.start("simulate", "job.toml", *FOREVER, *ASKED)
        self.until_rounds(run, ["runs/small"])
        run.send_signal(signal.SIGUSR1)
        self.until(run, ", as SIGUSR1 asks")
        self.assertEqual(len(self.checkpoints("runs/small")), 1)
        run.send_signal(signal.SIGHUP)
        code, text = self.end(run)
        self.assertEqual(code, 130, text)
        self.assertIn("--resume continues", text)
        self.assertEqual(len(self.checkpoints("runs/small")), 2)

    def test_launch_passes_both_on_and_a_stop_that_comes_twice_loses_nothing(self):
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, *ASKED)
        self.until_rounds(launch, [f"runs/small/{name}" for name in SITES])
        launch.send_signal(signal.SIGUSR1)
        for name in SITES:
            self.until(launch, f"{name}: checkpoint 1 is written")
        for pid in (launch.pid, *self.sites_of(launch).values()):  # as systemd does
            os.kill(pid, signal.SIGTERM)
        code, text = self.end(launch)
        self.assertEqual(code, 130, text)
        kept = [self.checkpoints(f"runs/small/{name}") for name in SITES]
        self.assertEqual(kept, [kept[0]] * 3)
        self.assertGreaterEqual(len(kept[0]), 2)
        self.damaged_at_one_site()

    def damaged_at_one_site(self):
        """Of that run both checkpoints of a site: it says which, and what to do; which helps."""
        oslo = self.folder / "runs/small/oslo"
        for path in (oslo / "checkpoints").glob("*"):
            path.write_bytes(path.read_bytes()[:-100])
        names = [path.name for path in (oslo / "checkpoints").glob("*")]
        addresses = free_addresses(3)
        code, text = self.end(self.start("site", "job.toml", "--site", "oslo", "--addresses",
                                         addresses, *FOREVER, *PACED, *ASKED, "--out",
                                         "runs/small/oslo"))
        self.assertEqual(code, 2, text)
        for part in (*names, "checksum does not fit", "rename the folder runs/small/oslo",
                     "the others keep theirs"):
            self.assertIn(part, text)
        self.assertNotIn("--force", text)
        if GATE:
            return
        oslo.rename(self.folder / "runs/small/damaged")
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, "--resume", "--set",
                            "net.meet_s=5")
        self.until(launch, "tokyo: resumes from checkpoint")
        self.until(launch, "tokyo: rank 2 (oslo) is back; the run goes on with 3 of 3 nodes")
        launch.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(launch)[0], 130)

    def test_process_1_ends_before_there_is_a_run(self):
        os.mkfifo(self.folder / "fifo.toml")  # the job is never read
        inside = ["unshare", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("needs root")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            run = self.start("simulate", "fifo.toml", inside=inside)
            end, pid = time.monotonic() + PATIENCE_S, ""
            while not pid or not self.catches(pid, number):
                self.assertLess(time.monotonic(), end)
                pid = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True,
                                     check=False).stdout.strip()
                time.sleep(0.02)
            os.kill(int(pid), number)
            self.assertEqual(self.end(run)[0], 128 + number)

    @staticmethod
    def catches(pid, number):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/status") as lines:
                for line in lines:
                    if line.startswith("SigCgt:"):
                        return int(line.split()[1], 16) >> (number - 1) & 1
        return False


@nightly
class SlowDisk(Case):
    """fsync takes 3 s: a checkpoint 9 s, the model and the summary 15 s more."""

    def test_a_last_checkpoint_is_waited_for(self):
        (self.folder / "slow.c").write_text(
            "#include <unistd.h>\nint fsync(int f) { (void)f; sleep(3); return 0; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "slow.so", "slow.c"], check=True,
                       cwd=self.folder)
        slow = {"LD_PRELOAD": str(self.folder / "slow.so"),
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, *ASKED, "--set",
                            "net.stop_within_s=0.1", env=slow)
        self.until_rounds(launch, [f"runs/small/{name}" for name in SITES])
        launch.send_signal(signal.SIGTERM)
        code, text = self.end(launch)
        self.assertEqual(code, 130, text)
        self.assertIn("waits for what is being written", text)
        for name in SITES:
            self.assertEqual(len(self.checkpoints(f"runs/small/{name}")), 1, text)
            self.assertTrue((self.folder / f"runs/small/{name}/summary.json").exists())


class FolderGone(Case):
    def gone(self, process, folders):
        self.until_rounds(process, folders)
        (self.folder / "runs/small").rename(self.folder / "elsewhere")
        for folder in folders:
            self.until(process, f"{folder}: the run's folder was removed, and is made again")

    def test_of_a_simulation(self):
        self.write(light(job_of(SITES)))
        run = self.start("simulate", "job.toml", *FOREVER, *ASKED, "--tensorboard")
        self.gone(run, ["runs/small"])
        run.send_signal(signal.SIGTERM)
        code, text = self.end(run)
        self.assertEqual(code, 130, text)
        names = {path.name for path in (self.folder / "runs/small").iterdir()}
        self.assertLessEqual({"job.toml", "lock", "metrics.jsonl", "summary.json", "checkpoints",
                              "tensorboard"}, names)
        rounds = json.loads((self.folder / "runs/small/summary.json").read_text())["rounds"]
        os.truncate(self.folder / "runs/small/metrics.jsonl", 100)
        text = self.says("simulate", "job.toml", "--resume", "--set",
                         f"stop.max_rounds={rounds + 5}")
        self.assertIn("resumes after round", text)
        self.assertIn("metrics.jsonl: shorter than the checkpoint says", text)

    @nightly
    def test_of_a_launch(self):
        launch = self.start("launch", "job.toml", *PACED, *FOREVER, *ASKED)
        folders = [f"runs/small/{name}" for name in SITES]
        self.gone(launch, folders)
        launch.send_signal(signal.SIGTERM)
        code, text = self.end(launch)
        self.assertEqual(code, 130, text)
        self.assertIn("launch: runs/small: the run's folder was removed", text)
        self.assertTrue((self.folder / "runs/small/summary.json").exists())
        for folder in folders:
            self.assertTrue(self.checkpoints(folder))
            self.assertTrue((self.folder / folder / "samples.bin").exists())


@nightly
class FullDisk(Case):
    """A file system of 2 MiB, of which a run needs more. libtorch's own writing ended the process
    there; a limit on the size of files is no such disk."""

    def test_all_that_is_not_written_is_told_and_written_later(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("needs root")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=True)
        more = ["--set", "model.kind=mlp", "--set", "model.hidden=[64]", "--set",
                "report.every_rounds=5", "--set", "stop.max_rounds=100000", "--out", "disk/run"]
        for room in (False, True):
            shutil.rmtree(disk / "run", ignore_errors=True)
            with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
                while filler.tell() < 1_950_000:
                    filler.write(bytes(4096))
            run = self.start("simulate", "job.toml", "--tensorboard", *more)
            for text in ("best.pt.tmp: writing it failed: No space", "no checkpoint of round"):
                self.until(run, text)
            if room:
                (disk / "filler").unlink()
                self.until(run, "the best model is written again")
                self.until(run, "a checkpoint is written again")
            run.send_signal(signal.SIGTERM)
            code, text = self.end(run)
            self.assertEqual(code, 130 if room else 2, text)
            self.assertEqual((disk / "run/model.pt").exists(), room)
            self.assertIn("--resume continues" if room else "not all of it is kept", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
