#!/usr/bin/env python3
"""plan: a recommendation that its own job confirms, and what is refused.

    LONGHAUL=build/release/longhaul tests/cli/advise_test.py
"""
import json
import signal
import subprocess
import unittest

from cli_test import LONGHAUL, PATIENCE_S
from report_runs import Runs

JOB = """\
stop = {max_rounds = 5, target_accuracy = 0.9}
report = {every_rounds = 1}
model = {kind = "logistic"}
data = {kind = "synthetic", batch = 8}
sync = {kind = "fedavg", steps = 4}
wan = {mbps = 1, delay_ms = 50}
site = [{name = "tokyo", step_ms = 10}, {name = "lima", step_ms = 15}]
"""


class Plan(Runs):
    def interrupted_at(self, begin, *words):
        """What it prints, and its errors, after Ctrl-C at the first error line that begins so."""
        process = subprocess.Popen([LONGHAUL, *words], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in process.stderr:
            if line.startswith(begin):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130, out + err)
        return out, err

    def test_the_recommended_job_does_what_was_predicted(self):
        # Matrices are named from where the written job lies, so that both may move.
        jobs = self.folder / "jobs"
        jobs.mkdir()
        (jobs / "rates.csv").write_text("src,tokyo,lima\ntokyo,,1\nlima,1,\n")
        # The job's own max_rounds would end its runs before the target.
        (jobs / "small.toml").write_text(JOB.replace("mbps = 1,", 'mbps_csv = "rates.csv",')
                                         .replace("max_rounds = 5", "max_rounds = 1")
                                         + 'optimizer = {kind = "sgd", rate = 0.001}\n')
        done = self.longhaul("plan", "jobs/small.toml", "--budget-epochs", 100, "--jobs", 2,
                             "--quiet", "--json", "--write", "jobs/best.toml", "--out", "p")
        self.assertIn('\nmbps_csv = "rates.csv"\n', (jobs / "best.toml").read_text())
        jobs.rename(self.folder / "moved")
        plan = json.loads(done.stdout)
        best = next(t for t in plan["ranking"] if t["label"] == plan["recommended"])
        first = plan["finalists"][0]
        self.assertEqual(plan["recommended"], first["label"])
        # The finals have seeds of their own, and their time lies between two scores.
        seeds = [one["seed"] for one in first["seeds"]]
        self.assertEqual(seeds, [2, 3, 4])
        for one in first["seeds"]:
            low, high = one["between_s"]
            self.assertTrue(low <= one["time_to_target_s"] <= high, one)
        medians = [f["time_to_target_s"]["median"] for f in plan["finalists"]
                   if f["time_to_target_s"]]
        self.assertEqual(medians, sorted(medians))
        self.assertIn(plan["front"][0]["label"], [f["label"] for f in plan["finalists"]])
        self.assertTrue(0 <= plan["confidence"] <= 1)
        self.assertEqual([change["what"] for change in plan["changes"]],
                         ["the target a point higher", "half the bandwidth",
                          "twice the bandwidth", "lima half as fast"])
        self.assertTrue(any("rate=" in t["label"] for t in plan["ranking"]))
        self.assertIn("staleness_lab", plan["left_out"])
        self.assertLessEqual(plan["epochs"], 100)
        for trial in plan["ranking"]:
            self.assertLessEqual(trial["time_to_target_s"] or 0, trial["limit_s"], trial)
        run = json.loads(self.longhaul("simulate", "moved/best.toml", "--quiet", "--json",
                                       "--out", "best").stdout)
        self.assertEqual(run["time_to_target_s"], best["time_to_target_s"])
        if best["rounds"] > 1:
            self.assertGreaterEqual(plan["max_rounds_written"], 2 * best["rounds"])
        self.assertEqual((run["sync"], run["overlay"], run["codec"]),
                         (best["sync"], best["overlay"], best["codec"]))
        self.assertIn("exists already", self.longhaul("plan", "moved/small.toml", "--out",
                                                      "p", code=2).stderr)

    def test_trials_that_are_short_beside_the_jobs_scores_are_scored(self):
        text = (JOB.replace("max_rounds = 5, ", "").replace("report = {every_rounds = 1}\n", "")
                .replace("mbps = 1,", "mbps = 0.2,"))
        (self.folder / "small.toml").write_text(text)
        plan = json.loads(self.longhaul("plan", "small.toml", "--budget-epochs", 30, "--jobs", 2,
                                        "--quiet", "--json", "--out", "short").stdout)
        long = [one for one in plan["ranking"] if one["rounds"] >= 2]
        self.assertGreater(len(long), 5)
        self.assertEqual([one["label"] for one in long if one["score"] == 0], [])
        # On a slow network a strategy's first trials have the smaller values.
        codecs = {one["codec"] for one in plan["ranking"] if one["sync"] == "ssp"}
        self.assertIn("int8", codecs)
        self.assertNotIn("fp32", codecs)

    def test_interrupted_while_it_predicts(self):
        sites = ", ".join(f'{{name = "s{i}"}}' for i in range(8))
        (self.folder / "many.toml").write_text(
            JOB.replace(JOB.splitlines()[-1], f"site = [{sites}]"))
        out, err = self.interrupted_at("predicting", "plan", "many.toml", "--write", "late.toml",
                                       "--out", "many")
        self.assertIn("Ctrl-C came", out + err)
        self.assertFalse((self.folder / "late.toml").exists())
        if out:  # something was predicted by then
            self.assertIn("late.toml is not written", out)
            self.assertIn("samples a second", out)

    def test_an_interrupted_plan_goes_on_to_the_same_end(self):
        (self.folder / "small.toml").write_text(JOB)
        words = ["plan", "small.toml", "--budget-epochs", "5", "--json"]
        whole = json.loads(self.longhaul(*words, "--quiet", "--out", "whole").stdout)
        # The budget is kept, and what did not fit is named.
        self.assertTrue(2.5 < whole["epochs"] <= 5, whole["epochs"])
        self.assertEqual(whole["samples"], whole["epochs"] * 2000)
        self.assertIn("trials of stage", whole["no_budget"][0])
        out, err = self.interrupted_at("stage 2", *words, "--out", "cut")
        self.assertIn("with --resume continues", err)
        self.assertLess(json.loads(out)["runs"], whole["runs"])
        self.assertIn("--resume goes on", self.longhaul(*words, "--out", "cut", code=2).stderr)
        again = json.loads(self.longhaul(*words, "--quiet", "--out", "cut", "--resume").stdout)
        for of in whole, again:
            of.pop("real_s")
            of.pop("folder", None)
        self.assertEqual(again, whole)
        # The same of a plan that was finished, with other max_rounds, on which no trial depends.
        (self.folder / "small.toml").write_text(JOB.replace("max_rounds = 5", "max_rounds = 7"))
        done = json.loads(self.longhaul(*words, "--quiet", "--out", "cut", "--resume").stdout)
        done.pop("real_s")
        self.assertEqual(done, whole)
        # Another job is refused before anything runs, also where it differs for one strategy only.
        # The plan stays.
        kept = (self.folder / "cut/plan.json").read_bytes()
        for text, why in ((JOB.replace("batch = 8", "batch = 16"), "[data] batch: was 8, is 16"),
                          (JOB.replace("= 0.9}", "= 0.8}"), "target_accuracy: was 0.9, is 0.8"),
                          (JOB + "[for.diloco.sync]\nsteps = 3\n",
                           "with diloco, [sync] steps: was 4, is 3")):
            (self.folder / "small.toml").write_text(text)
            refused = self.longhaul(*words, "--out", "cut", "--resume", code=2)
            self.assertIn(why, refused.stderr)
            self.assertNotIn("stage", refused.stderr)
            self.assertEqual((self.folder / "cut/plan.json").read_bytes(), kept)

    def test_refused(self):
        (self.folder / "none.toml").write_text(JOB.replace(", target_accuracy = 0.9", ""))
        self.assertIn("needs a target", self.longhaul("plan", "none.toml", code=2).stderr)
        (self.folder / "phantom.toml").write_text(
            JOB.replace('"logistic"', '"phantom"').replace(
                'data = {kind = "synthetic", batch = 8}\n', ""))
        self.assertIn("no numbers", self.longhaul("plan", "phantom.toml", code=2).stderr)
        (self.folder / "own.toml").write_text(JOB)
        self.assertRegex(self.longhaul("plan", "own.toml", "--budget-samples", 400, "--write",
                                       "best.toml", "--out", "few", code=1).stderr,
                         "plan: the budget is too small.*--budget-samples [0-9]+ would be enough")
        self.assertFalse((self.folder / "best.toml").exists())
        for words, why in ((["--write", "own.toml"], "is the job itself"),
                           (["--write", "none/best.toml"], "is no folder"),
                           (["--out", "own.toml/p"], "name another folder with --out"),
                           (["--budget-epochs", "nan"], "above 0")):
            self.assertIn(why, self.longhaul("plan", "own.toml", *words, code=2).stderr)
        self.assertIn("leave out one", self.longhaul(
            "compare", "own.toml", "--sync", "fedavg", "--tune", "--sweep", "optimizer.rate=1,2",
            code=2).stderr)

    def test_a_plan_that_could_not_begin_leaves_its_folder_free(self):
        text = JOB.replace('{kind = "synthetic", batch = 8}', '{kind = "csv", path = "a.csv", '
                           'target = "y"}')
        (self.folder / "csv.toml").write_text(text)
        for _ in range(2):
            self.assertIn("a.csv", self.longhaul("plan", "csv.toml", "--out", "free",
                                                 code=2).stderr)

    def test_one_plan_at_a_time_in_a_folder(self):
        (self.folder / "small.toml").write_text(JOB)
        first = subprocess.Popen([LONGHAUL, "plan", "small.toml", "--out", "busy"],
                                 cwd=self.folder, text=True, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
        self.assertIn("predicting", first.stderr.readline())
        second = self.longhaul("plan", "small.toml", "--out", "busy", "--resume", code=2)
        first.kill()
        first.communicate()
        self.assertIn("another plan runs there", second.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
