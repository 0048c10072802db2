#!/usr/bin/env python3
"""Data of one's own beyond a column of classes: files of tokens, several targets.

    LONGHAUL=build/release/longhaul tests/cli/own_data_test.py
"""
import array
import json
import random
import unittest

import launch_test
from effort import GATE

TOKENS = """\
stop = {max_rounds = 4}
report = {every_rounds = 2}
model = {kind = "gpt", layers = 1, width = 8}
data = {kind = "tokens", vocabulary = 700, context = 8, partition = "local", batch = 8}
optimizer = {kind = "adamw", rate = 0.01, clip = 1.0}
sync = {kind = "fedavg", steps = 2}
site = [{name = "oslo", data = "oslo.bin"}, {name = "rome", data = "rome.bin"}]
"""
LABELS = """\
stop = {max_rounds = 25}
report = {every_rounds = 25}
model = {kind = "logistic"}
data = {kind = "csv", path = "plant.csv", target = ["hot", "wet"], loss = "bce", batch = 8}
optimizer = {kind = "sgd", rate = 0.5}
sync = {kind = "fedavg", steps = 4}
site = [{name = "oslo"}, {name = "rome"}]
"""


class OwnData(launch_test.Case):
    def test_sites_with_token_files_of_their_own_train_alike_on_both_hosts(self):
        draw = random.Random(2)
        for site in ("oslo", "rome"):
            ids = array.array("H", (draw.choice([3, 650, 699]) for _ in range(400)))
            (self.folder / f"{site}.bin").write_bytes(ids.tobytes())
        self.write(TOKENS)
        self.run_ok("launch", "job.toml", "--quiet", "--out", "real")
        oslo, rome = self.summary("real/oslo"), self.summary("real/rome")
        self.assertEqual(oslo["params_hash"], rome["params_hash"])
        self.assertLess(oslo["final_loss"], 6.6)  # ln 700 = 6.55 at the start
        if not GATE:
            self.run_ok("simulate", "job.toml", "--quiet", "--out", "virtual")
            self.assertEqual(self.summary("virtual")["params_hash"], oslo["params_hash"])

    def test_a_token_beyond_the_vocabulary_is_named(self):
        (self.folder / "oslo.bin").write_bytes(array.array("H", [1, 2, 700] * 20).tobytes())
        self.write(TOKENS.replace('"rome.bin"', '"oslo.bin"'))
        self.bad("simulate", "job.toml", names=["oslo.bin: token 2 (at byte 4) is 700",
                                                "[data] vocabulary = 700"])

    def test_several_labels_are_learned_and_named(self):
        draw = random.Random(4)
        rows = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(200)]
        (self.folder / "plant.csv").write_text("hot,x,wet,z\n" + "".join(
            f"{int(x > 0.3)},{x:.3f},{int(x + z < 0)},{z:.3f}\n" for x, z in rows))
        self.write(LABELS)
        self.run_ok("simulate", "job.toml", "--quiet", "--out", "run")
        self.assertGreater(self.summary("run")["final_accuracy"], 0.85)
        data = json.loads((self.folder / "run/data.json").read_text())
        self.assertEqual(data["targets"], ["hot", "wet"])
        self.assertEqual([column["name"] for column in data["columns"]], ["x", "z"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
