#!/usr/bin/env python3
"""Running statistics that stay at each worker, [model] bn = "local": docs/models.md.

    LONGHAUL=build/release/longhaul tests/cli/statistics_test.py
"""
import json
import random
import struct
import unittest

import launch_test

JOB = """\
[job]
name = "small"
seed = 5
checkpoint_every = 3
[stop]
max_rounds = 6
[report]
every_rounds = 6
[model]
kind = "lenet"
norm = "batch"
[data]
kind = "mnist"
path = "images"
batch = 8
partition = "skewed"
degree = 1
[optimizer]
kind = "sgd"
rate = 0.05
[sync]
kind = "bsp"
[[site]]
name = "tokyo"
step_ms = 1
[[site]]
name = "lima"
step_ms = 1
"""
LOCAL = ["--set", "model.bn=local"]


class Statistics(launch_test.Case):
    """Ten classes, each a bright bar at a place of its own in noise."""

    def setUp(self):
        super().setUp()
        self.write(JOB)
        draw = random.Random(3)
        folder = self.folder / "images"
        folder.mkdir()
        for name, count in (("train", 80), ("t10k", 40)):
            labels = bytes(i % 10 for i in range(count))
            pixels = bytearray(draw.randrange(60) for _ in range(count * 784))
            for i, label in enumerate(labels):
                start = i * 784 + 56 * label
                pixels[start:start + 80] = b"\xff" * 80
            (folder / f"{name}-images-idx3-ubyte").write_bytes(
                struct.pack(">4I", 0x803, count, 28, 28) + bytes(pixels))
            (folder / f"{name}-labels-idx1-ubyte").write_bytes(
                struct.pack(">2I", 0x801, count) + labels)

    def simulated(self, *sets):
        done = self.run_ok("simulate", "job.toml", "--json", "--quiet", "--force", "--out",
                           "runs/simulated", *sets)
        return json.loads(done.stdout)

    def score(self, run):
        return json.loads(self.run_ok("evaluate", run, "--json").stdout)

    def test_parameters_are_as_with_the_mean_and_statistics_are_not(self):
        mean = self.simulated()
        local = self.simulated(*LOCAL)
        # bsp: gradients are of batches, which statistics have no part in
        self.assertEqual(mean["stop_reason"], local["stop_reason"])
        self.assertEqual(local["rounds"], 6)
        self.assertNotEqual(mean["params_hash"], local["params_hash"])  # without the statistics
        self.assertNotEqual(mean["final_loss"], local["final_loss"])
        self.assertLess(local["wan_bytes"], mean["wan_bytes"])

    def test_the_model_that_is_written_is_the_one_that_was_scored(self):
        for sets in ([], LOCAL, [*LOCAL, "--set", "sync.kind=shadowsync", "--set",
                                 "sync.algorithm=easgd"]):
            with self.subTest(sets=sets):
                done = self.simulated(*sets)
                again = self.score("runs/simulated")
                self.assertEqual(again["params_hash"], done["params_hash"])
                self.assertAlmostEqual(again["loss"], done["final_loss"], places=9)
        self.run_ok("export", "runs/simulated")

    def test_over_sockets_all_have_the_parameters_of_the_simulation(self):
        done = self.simulated(*LOCAL)
        self.says("launch", "job.toml", "--quiet", "--force", *LOCAL)
        losses = set()
        for name in ("tokyo", "lima"):
            run = f"runs/small/{name}"
            self.assertEqual(self.summary(run)["params_hash"], done["params_hash"])
            again = self.score(run)
            self.assertEqual(again["params_hash"], done["params_hash"])
            self.assertAlmostEqual(again["loss"], self.summary(run)["final_loss"], places=9)
            losses.add(again["loss"])
        self.assertIn(done["final_loss"], losses)
        self.assertEqual(len(losses), 2, "each has statistics of its own")

    def test_a_stopped_run_goes_on_with_its_statistics(self):
        done = self.simulated(*LOCAL)
        self.run_ok("simulate", "job.toml", "--quiet", "--force", "--out", "runs/first", *LOCAL,
                    "--set", "stop.max_rounds=3")
        resumed = self.run_ok("simulate", "job.toml", "--quiet", "--json", "--resume", "--out",
                              "runs/first", *LOCAL)
        self.assertEqual(json.loads(resumed.stdout)["final_loss"], done["final_loss"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
