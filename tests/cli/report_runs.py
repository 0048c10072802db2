"""Four small runs for the tests of report."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from cli_test import LONGHAUL, PATIENCE_S, ROOT

HAS_CHARTS = (ROOT / "web/node_modules/uplot/dist/uPlot.iife.min.js").exists()

JOB = """\
stop = {max_rounds = 12, target_accuracy = 0.99}
report = {every_rounds = 1}
model = {kind = "logistic"}
data = {kind = "synthetic", batch = 8}
sync = {kind = "fedavg", steps = 3}
wan = {mbps = 10, delay_ms = 5}
site = [{name = "tokyo", step_ms = 10}, {name = "lima", step_ms = 15},
        {name = "oslo", step_ms = 12, up_mbps = 2}]
"""


class Runs(unittest.TestCase):
    job = JOB

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-report-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        (cls.folder / "job.toml").write_text(cls.job)
        subprocess.run([LONGHAUL, "compare", "job.toml", "--sync", "fedavg,diloco", "--quiet",
                        "--overlay", "direct,ring", "--out", "c"], cwd=cls.folder,
                       timeout=PATIENCE_S, capture_output=True)

    def over_sockets(self):
        """The folder of a launch of the job, made once for a class."""
        if not (self.folder / "sockets/summary.json").exists():
            self.longhaul("launch", "job.toml", "--quiet", "--out", "sockets")
        return "sockets"

    def longhaul(self, *args, code=0):
        done = subprocess.run([LONGHAUL, *map(str, args)], cwd=self.folder, timeout=PATIENCE_S,
                              capture_output=True, text=True)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done
