#!/usr/bin/env python3
"""Sites that come with files of their own: data, models, and what differs between them.

    LONGHAUL=build/release/longhaul tests/cli/real_sites_test.py
"""
import json
import random
import subprocess
import sys
import unittest

import launch_test
from cli_test import PATIENCE_S
from effort import nightly
from ports import free_addresses

JOB = """\
stop = {max_rounds = 6}
report = {every_rounds = 3}
net = {meet_s = 60}
model = {kind = "mlp", hidden = [8]}
optimizer = {kind = "sgd", rate = 0.05}
sync = {kind = "fedavg", steps = 4}
"""
SHARED = JOB + """\
data = {kind = "csv", path = "d.csv", target = "y", batch = 8}
site = [{name = "a"}, {name = "b"}, {name = "c"}]
"""
LOCAL = JOB + """\
data = {kind = "csv", partition = "local", labels = ["0", "1", "2"], target = "y", batch = 8}
site = [{name = "a", data = "a.csv"}, {name = "b", data = "b.csv"}, {name = "c", data = "c.csv"}]
"""
SITES = "abc"


def rows(count, seed):
    draw = random.Random(seed)
    return [(draw.gauss(2 * (i % 3), 1), draw.gauss(1000 + 100 * (i % 3), 60), i % 3)
            for i in range(count)]


def table(samples, order="x1,x2,y"):
    lines = [order]
    for x1, x2, y in samples:
        cells = {"x1": f"{x1:.4f}", "x2": f"{x2:.3f}", "y": str(y)}
        lines.append(",".join(cells[name] for name in order.split(",")))
    return "\n".join(lines) + "\n"


class Case(launch_test.Case):
    """Each site in a folder of its own, with nothing in it but its files."""

    def site_folder(self, site, files):
        folder = self.folder / site
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            if isinstance(text, bytes):
                (folder / name).write_bytes(text)
            else:
                (folder / name).write_text(text)
        return folder

    def run_sites(self, job, files, *words):
        """{site: (exit code, what it said)}; files = {site: {name: text}}."""
        addresses = free_addresses(len(SITES))
        started = {}
        for site in SITES:
            folder = self.site_folder(site, {"job.toml": job, **files[site]})
            started[site] = subprocess.Popen(
                [launch_test.LONGHAUL, "site", "job.toml", "--site", site, "--addresses", addresses,
                 "--insecure", "--force", "--out", "run", *words],
                cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(started[site].kill)
        return {site: (process.wait(PATIENCE_S), process.stdout.read())
                for site, process in started.items()}

    def summary_of(self, site):
        return json.loads((self.folder / site / "run/summary.json").read_text())


class Differences(Case):
    """What must be equal and is not is refused before the first round, and named."""

    def refused(self, job, files, *words):
        ended = self.run_sites(job, files)
        for site, (code, said) in ended.items():
            self.assertNotIn(code, (0, 4), f"{site}: {said}")
            self.assertIn("another", said, site)
            for word in words:
                self.assertIn(word, said, site)
        for site in SITES:
            metrics = self.folder / site / "run/metrics.jsonl"
            self.assertFalse(metrics.exists() and metrics.read_text(), site)

    def test_rows_in_another_order(self):
        samples = rows(90, 1)
        other = list(samples)
        random.Random(9).shuffle(other)
        files = {site: {"d.csv": table(other if site == "c" else samples)} for site in SITES}
        self.refused(SHARED.replace("batch = 8", 'batch = 8, partition = "by_label"'), files,
                     "[data] path", "d.csv, 72 samples", "give both sites the same")

    @nightly
    def test_test_sets(self):
        files = {site: {f"{site}.csv": table(rows(40, 3)), "t.csv": table(rows(9, site == "c"))}
                 for site in SITES}
        self.refused(LOCAL.replace('target = "y"', 'target = "y", test_path = "t.csv"'), files,
                     "[data] test_path", "t.csv, 9 samples")

    @nightly
    def test_columns_of_own_files(self):
        files = {site: {f"{site}.csv": table(rows(40, 3))} for site in SITES}
        files["c"]["c.csv"] = files["c"]["c.csv"].replace("x1", "z1")
        ended = self.run_sites(LOCAL, files)
        for site, (code, said) in ended.items():
            self.assertEqual(code, 2, f"{site}: {said}")
            self.assertIn("site a and site c: other columns; the second lacks 'x1'", said)


class OwnData(Case):
    def files(self):
        """Of unlike scales, b without the class 2, c with other columns first."""
        made = {"a": rows(60, 3), "b": [one for one in rows(60, 4) if one[2] != 2],
                "c": rows(60, 5)}
        return {site: {f"{site}.csv": table(samples, "x2,y,x1" if site == "c" else "x1,x2,y")}
                for site, samples in made.items()}

    @nightly
    def test_three_folders_train_as_one_simulation_does(self):
        files = self.files()
        job = LOCAL.replace('target = "y"', 'target = "y", standardise = true, test_path = "t.csv"')
        shared = table(rows(30, 2), "y,x2,x1")
        for one in files.values():
            one["t.csv"] = shared
        ended = self.run_sites(job, files)
        for site, (code, said) in ended.items():
            self.assertEqual(code, 0, f"{site}: {said}")
        for name, text in {"job.toml": job, "t.csv": shared, **files["a"], **files["b"],
                           **files["c"]}.items():
            (self.folder / name).write_text(text)
        self.run_ok("simulate", "job.toml", "--quiet", "--out", "together")
        together = json.loads((self.folder / "together/summary.json").read_text())
        for site in SITES:
            summary = self.summary_of(site)
            self.assertEqual(summary["params_hash"], together["params_hash"], site)
        self.assertEqual(self.summary_of("a")["final_accuracy"], together["final_accuracy"])
        self.assertGreater(together["final_accuracy"], 0.5)
        data = [json.loads((self.folder / site / "run/data.json").read_text()) for site in SITES]
        self.assertEqual(data[0], data[2])
        self.assertEqual([one["name"] for one in data[2]["columns"]], ["x1", "x2"])

    def together(self, job, files):
        """The summary of one simulation with the files of all sites."""
        for text in files.values():
            for name, content in text.items():
                (self.folder / name).write_text(content)
        (self.folder / "job.toml").write_text(job)
        self.run_ok("simulate", "job.toml", "--quiet", "--out", "together")
        return json.loads((self.folder / "together/summary.json").read_text())

    def scores(self, run):
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return [(one["round"], one["values"]["loss"], one["values"]["accuracy"],
                 one["values"]["samples"]) for one in events if one["kind"] == "score"]

    def test_each_site_scores_its_own_samples_and_all_know_the_sum(self):
        files = self.files()
        job = LOCAL.replace('target = "y"', 'target = "y", standardise = true')
        ended = self.run_sites(job, files)
        for site, (code, said) in ended.items():
            self.assertEqual(code, 0, f"{site}: {said}")
        together = self.together(job, files)
        self.assertEqual([one["samples"] for one in together["site_scores"]], [12, 8, 12])
        self.assertEqual(sum(one["accuracy"] * one["samples"]
                             for one in together["site_scores"]) / 32, together["final_accuracy"])
        self.assertEqual([one[0] for one in self.scores("together")], [2, 5])
        for site in SITES:
            summary = self.summary_of(site)
            for key in ("params_hash", "final_accuracy", "final_loss", "site_scores",
                        "best_accuracy", "best_round"):
                self.assertEqual(summary[key], together[key], f"{site}: {key}")
            self.assertEqual(self.scores(f"{site}/run"), self.scores("together"), site)

    @nightly
    def test_a_target_that_only_the_sum_reaches_ends_the_run_everywhere(self):
        files = self.files()
        job = LOCAL.replace('target = "y"', 'target = "y", standardise = true') + \
            "[job]\ncheckpoint_every = 0\n"
        job = job.replace("stop = {max_rounds = 6}",
                          "stop = {max_rounds = 200, target_accuracy = 0.75}")
        ended = self.run_sites(job, files)
        together = self.together(job, files)
        self.assertEqual(together["stop_reason"], "target")
        for site, (code, said) in ended.items():
            self.assertEqual(code, 0, f"{site}: {said}")
            summary = self.summary_of(site)
            for key in ("stop_reason", "rounds", "final_accuracy", "params_hash", "model_is"):
                self.assertEqual(summary[key], together[key], f"{site}: {key}")

    @nightly
    def test_a_site_that_comes_back_has_the_same_scales(self):
        files = self.files()
        job = LOCAL.replace('target = "y"', 'target = "y", standardise = true, test_path = "t.csv"')
        for one in files.values():
            one["t.csv"] = table(rows(30, 2))
        ended = self.run_sites(job, files)
        hashes = {self.summary_of(site)["params_hash"] for site in SITES}
        self.assertEqual(len(hashes), 1, ended)


class Careless(Case):
    """A site whose data ruin the model, or are in other units, is named at all sites."""

    @nightly
    def test_values_that_are_not_finite_end_the_run_everywhere(self):
        huge = [(3e38, x2, y) for _, x2, y in rows(60, 4)]
        files = {site: {f"{site}.csv": table(rows(60, 3)), "t.csv": table(rows(9, 2))}
                 for site in SITES}
        files["b"]["b.csv"] = table(huge)
        job = LOCAL.replace('target = "y"', 'target = "y", test_path = "t.csv"')
        ended = self.run_sites(job, files, "--quiet")
        for site, (code, said) in ended.items():
            self.assertEqual(code, 1, f"{site}: {said}")
            self.assertIn("site b", said, site)
            self.assertIn("not finite", said, site)
            self.assertIn("site b: column 'x1' reaches 3e+38", said, site)
            self.assertEqual(self.summary_of(site)["stop_reason"], "diverged", site)

    @nightly
    def test_a_site_in_other_units_is_named(self):
        files = {site: {f"{site}.csv": table(rows(60, 3)), "t.csv": table(rows(9, 2))}
                 for site in SITES}
        files["c"]["c.csv"] = table([(1000 * x1, 1000 * x2, y) for x1, x2, y in rows(60, 5)])
        job = LOCAL.replace('target = "y"', 'target = "y", test_path = "t.csv"')
        ended = self.run_sites(job, files, "--quiet", "--set", "optimizer.rate=1e-9")
        for site, (code, said) in ended.items():
            self.assertEqual(code, 0, f"{site}: {said}")
            self.assertIn("WARNING: site c: column 'x2' reaches", said, site)
            self.assertIn("WARNING: c: what it contributes in round", said, site)


class Predict(Case):
    def test_classes_and_probabilities_of_new_samples(self):
        (self.folder / "d.csv").write_text(table(rows(90, 1)))
        job = SHARED.replace("batch = 8", "batch = 8, standardise = true")
        (self.folder / "job.toml").write_text(job)
        self.run_ok("simulate", "job.toml", "--quiet", "--out", "run")
        samples = rows(12, 7)
        (self.folder / "new.csv").write_text(table(samples, "x2,x1"))
        lines = self.run_ok("predict", "run", "new.csv", "--probabilities").stdout.splitlines()
        self.assertEqual(lines[0], "y,probability of 0,probability of 1,probability of 2")
        answers = [line.split(",") for line in lines[1:]]
        self.assertEqual(len(answers), 12)
        for answer in answers:
            shares = [float(one) for one in answer[1:]]
            self.assertAlmostEqual(sum(shares), 1, 4)
            self.assertEqual(answer[0], str(shares.index(max(shares))))
        right = sum(answer[0] == str(y) for answer, (_, _, y) in zip(answers, samples))
        self.assertGreaterEqual(right, 7)
        (self.folder / "bad.csv").write_text("x1\n3\n")
        refused = self.longhaul("predict", "run", "bad.csv")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("bad.csv:1: expected the columns of the training set; missing: 'x2'",
                      refused.stderr)


if __name__ == "__main__":
    unittest.main()
