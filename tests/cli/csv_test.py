#!/usr/bin/env python3
"""Tables of numbers as a user brings them: columns of unlike scale, classes with names.

    LONGHAUL=build/release/longhaul tests/cli/csv_test.py
"""
import json
import random
import unittest

import launch_test
from effort import GATE, nightly

JOB = """\
stop = {max_rounds = 30}
report = {every_rounds = 5}
model = {kind = "mlp"}
data = {kind = "csv", path = "flowers.csv", target = "species", batch = 8}
optimizer = {kind = "sgd", rate = 0.1}
sync = {kind = "fedavg", steps = 4}
wan = {mbps = 50, delay_ms = 4}
site = [{name = "virginia", step_ms = 2}, {name = "tokyo", step_ms = 3}]
"""
NAMES = ["setosa", "versicolor", "virginica"]


class Csv(launch_test.Case):
    def setUp(self):
        super().setUp()
        draw = random.Random(3)
        rows = [(draw.gauss(40 + 2 * k, 1), draw.gauss(50000 + 9000 * k, 4000), 7, NAMES[k])
                for k in [0, 1, 2] * 100]
        draw.shuffle(rows)
        (self.folder / "flowers.csv").write_text(
            "age,income,same,species\n" + "".join("%.3f,%.1f,%d,%s\n" % row for row in rows))
        self.write(JOB)

    @nightly
    def test_columns_of_unlike_scale_are_learned_when_they_are_standardised(self):
        raw = self.run_ok("simulate", "job.toml", "--quiet", "--out", "raw").stdout
        self.assertIn("no better than chance; column 'income' varies by", raw)
        self.assertIn("[data] standardise = true", raw)
        done = self.run_ok("simulate", "job.toml", "--quiet", "--set", "data.standardise=true",
                           "--out", "good").stdout
        self.assertNotIn("chance", done)
        self.assertGreater(self.summary("good")["final_accuracy"], 0.8)
        self.assertLess(self.summary("raw")["final_accuracy"], 0.5)

    def test_every_site_computes_the_same_numbers_over_sockets(self):
        more = ("--quiet", "--set", "data.standardise=true", "--set", "data.partition=dirichlet")
        one = "two" if GATE else "one"
        if not GATE:
            self.run_ok("simulate", "job.toml", *more, "--out", one)
        self.run_ok("launch", "job.toml", *more, "--out", "two")
        data = (self.folder / one / "data.json").read_text()
        for site in ("virginia", "tokyo"):
            self.assertEqual(self.summary(f"two/{site}")["params_hash"],
                             self.summary(one)["params_hash"])
            self.assertEqual((self.folder / "two" / site / "data.json").read_text(), data)
        self.assertEqual((self.folder / "two/data.json").read_text(), data)
        data = json.loads(data)
        self.assertEqual(data["classes"], NAMES)
        self.assertEqual([c["name"] for c in data["columns"]], ["age", "income", "same"])
        self.assertEqual((data["columns"][2]["mean"], data["columns"][2]["std"]), (7, 0))

    def test_explain_names_classes_and_columns(self):
        said = self.run_ok("explain", "job.toml").stdout
        self.assertRegex(said, r"site +setosa +versicolor +virginica +all")
        self.assertIn("Hint: column 'income' varies by", said)
        said = self.run_ok("explain", "job.toml", "--set", "data.standardise=true").stdout
        self.assertNotIn("Hint", said)
        self.assertRegex(said, r"Columns, standardised by the training samples\ncolumn +mean +std\n"
                               r"age +4\d\.\d+ +1\.\d+\nincome +5\d+.* +\d+.*\nsame +7 +0\n")

    def test_errors_name_the_classes(self):
        sites = ", ".join(f'{{name = "s{i}"}}' for i in range(4))
        self.write(JOB.replace(JOB.splitlines()[-1], f"site = [{sites}]"))
        told = self.longhaul("explain", "job.toml", "--set", "data.partition=by_label")
        self.assertEqual(told.returncode, 2)
        self.assertIn("4 sites and only 3 labels (setosa, versicolor, virginica)", told.stderr)

    def test_a_path_is_found_beside_the_job_and_in_the_current_folder(self):
        (self.folder / "jobs").mkdir()
        (self.folder / "flowers.csv").rename(self.folder / "jobs/own.csv")
        self.write(JOB.replace("flowers.csv", "own.csv"), "jobs/own.toml")
        self.run_ok("explain", "jobs/own.toml")
        self.write(JOB.replace("flowers.csv", "jobs/own.csv"))
        self.run_ok("explain", "job.toml")
        self.write(JOB.replace("flowers.csv", "none.csv"))
        self.bad("simulate", "job.toml", names=["job.toml:4: [data] path: none.csv: no such file",
                                                "in the current folder, and beside the job file"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
