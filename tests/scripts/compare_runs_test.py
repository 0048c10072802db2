"""scripts/compare-runs: the demo's table, and its exit codes."""
import json
import os
import unittest

from scripts_case import ScriptCase

SUMMARY = {"sync": "bsp", "overlay": "ring", "codec": "fp32", "target_accuracy": 0.97,
           "time_to_target_s": 1234.56, "wan_bytes": 2500000, "compute_utilisation": 0.253,
           "final_accuracy": 0.9712}


class CompareRuns(ScriptCase):
    def run_of(self, name, **changes):
        self.write(f"{name}/summary.json", json.dumps({**SUMMARY, **changes}))
        return os.path.join(self.root, name)

    def test_one_line_a_run(self):
        runs = [self.run_of("a"), self.run_of("b", sync="diloco", wan_bytes=100000)]
        output = self.expect("compare-runs", 0, "target accuracy 97%", "1,234.6 s", "2.5 MB",
                             "25.3%", "97.12%", "diloco", arguments=runs)
        self.assertEqual(len(output.splitlines()), 5)

    def test_a_target_not_reached_is_an_exit_code(self):
        run = self.run_of("a", time_to_target_s=None)
        self.expect("compare-runs", 1, "not reached", arguments=[run])

    def test_a_missing_or_torn_summary(self):
        self.expect("compare-runs", 2, "summary.json",
                    arguments=[os.path.join(self.root, "nowhere")])
        self.write("torn/summary.json", '{"sync": ')
        self.expect("compare-runs", 2, arguments=[os.path.join(self.root, "torn")])


if __name__ == "__main__":
    unittest.main()
