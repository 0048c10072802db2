#!/usr/bin/env python3
"""plan: a recommendation that its own job confirms, and what is refused.

    LONGHAUL=build/release/longhaul tests/cli/advise_test.py
"""
import json
import unittest

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
    def test_the_recommended_job_does_what_was_predicted(self):
        (self.folder / "small.toml").write_text(JOB)
        done = self.longhaul("plan", "small.toml", "--budget-epochs", 100, "--jobs", 2, "--quiet",
                             "--json", "--write", "best.toml", "--out", "p")
        plan = json.loads(done.stdout)
        best = plan["ranking"][0]
        self.assertEqual(plan["recommended"], best["label"])
        times = [t["time_to_target_s"] for t in plan["ranking"] if t["time_to_target_s"]]
        self.assertEqual(best["time_to_target_s"], min(times))
        self.assertIn("staleness_lab", plan["left_out"])
        self.assertLess(plan["epochs"], 120)
        run = json.loads(self.longhaul("simulate", "best.toml", "--quiet", "--json", "--out",
                                       "best").stdout)
        self.assertEqual(run["time_to_target_s"], best["time_to_target_s"])
        self.assertEqual((run["sync"], run["overlay"], run["codec"]),
                         (best["sync"], best["overlay"], best["codec"]))
        self.assertIn("exists already", self.longhaul("plan", "small.toml", "--out", "p",
                                                      code=2).stderr)

    def test_trials_that_are_short_beside_the_jobs_scores_are_scored(self):
        text = JOB.replace("max_rounds = 5, ", "").replace("report = {every_rounds = 1}\n", "")
        (self.folder / "small.toml").write_text(text)
        plan = json.loads(self.longhaul("plan", "small.toml", "--budget-epochs", 30, "--jobs", 2,
                                        "--quiet", "--json", "--out", "short").stdout)
        long = [one for one in plan["ranking"] if one["rounds"] >= 6]
        self.assertGreater(len(long), 5)
        self.assertEqual([one["label"] for one in long if one["score"] == 0], [])

    def test_refused(self):
        (self.folder / "none.toml").write_text(JOB.replace(", target_accuracy = 0.9", ""))
        self.assertIn("needs a target", self.longhaul("plan", "none.toml", code=2).stderr)
        (self.folder / "phantom.toml").write_text(
            JOB.replace('"logistic"', '"phantom"').replace(
                'data = {kind = "synthetic", batch = 8}\n', ""))
        self.assertIn("no numbers", self.longhaul("plan", "phantom.toml", code=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
