#!/usr/bin/env python3
"""Drives the built binary as a user would: bad input, JSON, interruption, resumption, threads.

    LONGHAUL=build/release/longhaul tests/cli/cli_test.py
"""
import atexit
import functools
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from effort import GATE, LIGHT, chosen, light, nightly

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGHAUL = pathlib.Path(os.environ.get("LONGHAUL", ROOT / "build/release/longhaul")).resolve()
# With which what takes seconds is waited for: others may be busy on this machine.
PATIENCE_S = 600
# A launcher that started the tests did not start the sites that they start.
for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
                 "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
    os.environ.pop(variable, None)

JOB = """\
[job]
name = "small"
seed = 5
[stop]
max_rounds = 12
[report]
every_rounds = 2
[model]
kind = "logistic"
[data]
kind = "synthetic"
batch = 8
[optimizer]
kind = "sgd"
rate = 0.1
momentum = 0.9
[sync]
kind = "fedavg"
steps = 3
[overlay]
kind = "direct"
[wan]
mbps = 10
delay_ms = 5
[[site]]
name = "tokyo"
up_mbps = 5
down_mbps = 5
step_ms = 10
jitter = 0.2
[[site]]
name = "lima"
step_ms = 15
[[site]]
name = "oslo"
step_ms = 12
"""
# Long enough to be interrupted, with checkpoints on the way.
LONG = JOB.replace("max_rounds = 12", "max_rounds = 400").replace("steps = 3", "steps = 5")


@functools.lru_cache(maxsize=1)
def small_runs():
    """A folder of runs of JOB, made once: `run` by two threads; `seeds` of 5 and 6, by one. And
    what the two commands said."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-cli-runs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "job.toml").write_text(JOB)
    said = [subprocess.run([LONGHAUL, "simulate", "job.toml", "--json", *words], cwd=folder,
                           timeout=PATIENCE_S, check=True, stdout=subprocess.PIPE, text=True).stdout
            for words in (("--threads", "2", "--out", "run"),
                          ("--threads", "1", "--out", "seeds", "--seeds", "2"))]
    return folder, *said


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, text, name="job.toml"):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def longhaul(self, *args, timeout=PATIENCE_S):
        command = [LONGHAUL, *map(str, args)]
        try:
            return subprocess.run(command, cwd=self.folder, timeout=timeout, capture_output=True,
                                  text=True)
        except subprocess.TimeoutExpired as late:
            # What each node waited for: runs/NAME, or the folder of --out.
            status = [subprocess.run([LONGHAUL, "status", folder], capture_output=True, text=True,
                                     timeout=PATIENCE_S, check=False).stdout
                      for folder in self.folder.glob("runs/*")]
            self.fail(f"{command} took more than {timeout} s\n{late.stdout}\n{late.stderr}\n"
                      + "\n".join(status))

    def run_ok(self, *args, code=0):
        done = self.longhaul(*args)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def bad(self, *args, names=(), code=2):
        """One message on standard error that names all of `names`, and nothing else."""
        done = self.longhaul(*args)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for name in names:
            self.assertIn(name, lines[0])
        return lines[0]


class BadInput(Case):
    def refused(self, text, *names, args=()):
        path = self.write(text)
        self.bad("simulate", path, "--out", self.folder / "run", *args, names=names)
        self.assertFalse((self.folder / "run").exists())

    def line_of(self, text, part):
        return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)

    def test_misspelt_model(self):
        text = JOB.replace('"logistic"', '"lenett"')
        self.refused(text, f"job.toml:{self.line_of(text, 'lenett')}", "[model] kind", "lenet")

    def test_misspelt_key(self):
        text = JOB.replace("batch = 8", 'partiton = "iid"')
        self.refused(text, f"job.toml:{self.line_of(text, 'partiton')}", "partiton", "'partition'")

    def test_negative_learning_rate(self):
        text = JOB.replace("rate = 0.1", "rate = -0.1")
        self.refused(text, f"job.toml:{self.line_of(text, '-0.1')}", "[optimizer] rate", "above 0")

    def test_negative_link_rate(self):
        text = JOB.replace("mbps = 10\n", "mbps = -10\n", 1)
        self.refused(text, f"job.toml:{self.line_of(text, '-10')}", "[wan] mbps", "above 0")

    def test_uplink_of_zero(self):
        text = JOB.replace("up_mbps = 5", "up_mbps = 0")
        self.refused(text, f"job.toml:{self.line_of(text, 'up_mbps')}", "[site.tokyo] up_mbps",
                     "above 0")

    def test_missing_data_file(self):
        text = JOB.replace('kind = "synthetic"', 'kind = "mnist"\npath = "nowhere"')
        self.refused(text, f"job.toml:{self.line_of(text, 'nowhere')}: [data] path: nowhere/")
        self.refused(text, "--set: [data] path: /nope/train-images", "no such file",
                     args=("--set", "data.path=/nope"))
        self.refused(text, "--set: [data] path: /dev/null: is a file", "folder",
                     args=("--set", "data.path=/dev/null"))

    def test_truncated_idx(self):
        data = self.folder / "mnist"
        data.mkdir()
        for name, head in (("train-images-idx3-ubyte", (0x803, 100, 28, 28)),
                           ("train-labels-idx1-ubyte", (0x801, 100)),
                           ("t10k-images-idx3-ubyte", (0x803, 100, 28, 28)),
                           ("t10k-labels-idx1-ubyte", (0x801, 100))):
            (data / name).write_bytes(struct.pack(f">{len(head)}I", *head) + b"\0" * 50)
        text = JOB.replace('kind = "synthetic"', f'kind = "mnist"\npath = "{data}"')
        self.refused(text, "[data] path", "idx", "fetch or copy it again")

    def test_job_file_is_a_directory(self):
        self.bad("simulate", self.folder, names=(str(self.folder), "is a directory"))

    def test_job_file_is_missing(self):
        self.bad("simulate", "no-job.toml", names=("no-job.toml",))

    def test_torn_toml(self):
        self.refused(JOB + "[for.bsp", f"job.toml:{len(JOB.splitlines()) + 1}", "TOML")

    def test_illegal_combination(self):
        text = JOB.replace('kind = "direct"',
                           'kind = "ring"\n[codec]\nkind = "int8"\nerror_feedback = true')
        self.refused(text, "ring", "error_feedback")

    def test_bad_set(self):
        self.refused(JOB, "--set", "[sync] steps", args=("--set", "sync.steps=many"))
        self.refused(JOB, "sync", args=("--set", "synk.steps=3"))

    def test_compare(self):
        job = self.write(JOB)
        self.bad("compare", job, "--sync", "bsp,fedvag", names=("--sync fedvag", "'fedavg'"))
        self.bad("compare", job, "--sync", "fedavg", "--overlay", "rign",
                 names=("--overlay rign", "'ring'"))
        line = self.line_of(JOB, "steps = 3")
        self.bad("compare", job, "--sync", "bsp,fedavg",
                 names=(f"job.toml:{line}: [sync] steps", '"bsp"', "[for.fedavg.sync]"))
        misspelt = self.write(JOB.replace("steps = 3", "stesp = 3"))
        self.bad("compare", misspelt, "--sync", "fedavg", names=("--sync fedavg", "'steps'"))

    def test_usage(self):
        self.bad("simulat", "x", names=("'simulate'",))
        self.bad("simulate", names=("JOB", "see longhaul simulate --help"))
        self.bad(names=("see longhaul --help",))
        self.assertEqual(self.run_ok("--version").stdout, self.run_ok("version").stdout)
        self.assertIn("runs/NAME-compare", self.run_ok("compare", "--help").stdout)
        self.bad("simulate", self.write(JOB), "--no-such", names=("--no-such",))
        self.bad("simulate", self.write(JOB), "--threads", "0", names=("--threads",))
        self.bad("explain", "fedavgg", names=("'fedavg'",))
        self.assertNotIn("lab-router", self.bad("lap", names=("'lab'",)))
        # A name in a file commands no terminal.
        self.bad("simulate", self.write(JOB + '["a\\u001b[31mX"]\nname = "a"\n'),
                 names=("[a\\x1b[31mX]: unknown table",))
        self.bad("evaluate", "runs/none", names=("runs/none",))


    def test_what_is_near_to_what_was_meant_is_named(self):
        job = self.write(JOB)
        self.bad("simulate", job, "--thread", "2", names=("did you mean --threads?",))
        self.bad("plan", job, "--budget-minute=2", names=("did you mean --budget-minutes?",))
        self.bad("plan", job, "--wan", "wam.toml", names=("--wan: wam.toml: no such network file",))
        self.bad("simulate", job, "--set", 'model={kind = "mlp"}',
                 names=("--set model=", "is a table", "--set model.kind="))
        self.bad("simulate", job, "--set", "report.target_accuracy=0.9",
                 names=("[report] target_accuracy: unknown key; 'target_accuracy' belongs in "
                        "[stop]",))
        self.bad("simulate", job, "--set", "job.momentum=0.9", names=("belongs in [optimizer]",))
        # One of its own table is nearer than one of another.
        self.bad("simulate", job, "--set", "sync.stesp=3", names=("did you mean 'steps'?",))


class Json(Case):
    FIELDS = ("sync overlay transfer codec seed sites rounds time_s final_accuracy final_loss "
              "target_accuracy time_to_target_s wan_bytes wan_messages compute_utilisation "
              "params_hash stop_reason").split()

    def test_summary_is_one_object_and_nothing_else(self):
        folder, said, _ = small_runs()
        out = folder / "run"
        summary = json.loads(said)
        for field in self.FIELDS:
            self.assertIn(field, summary)
        self.assertEqual(json.loads((out / "summary.json").read_text()), summary)
        self.assertEqual(summary["rounds"], 12)
        self.assertGreater(summary["wan_bytes"], 0)
        for name in ("job.toml", "metrics.jsonl", "model.pt"):
            self.assertTrue((out / name).exists(), name)
        for line in (out / "metrics.jsonl").read_text().splitlines():
            self.assertEqual(list(json.loads(line)),
                             ["time_s", "site", "rank", "round", "kind", "values"])

    def test_seeds_compare_list_and_dry_run(self):
        job = self.write(JOB)
        few = self.write(light(JOB), "few.toml")
        real, seeds = map(json.loads, small_runs()[1:])
        self.assertEqual(seeds["seeds"], [5, 6])
        self.assertLessEqual(seeds["final_loss"]["min"], seeds["final_loss"]["median"])
        compare = json.loads(self.run_ok("compare", few, "--sync", "fedavg", "--overlay",
                                         "direct,ring", "--json", "--out",
                                         self.folder / "c").stdout)
        self.assertEqual([run["overlay"] for run in compare["runs"]], ["direct", "ring"])
        self.assertIn("sync", json.loads(self.run_ok("list", "--json").stdout))
        dry = json.loads(self.run_ok("simulate", job, "--dry-run", "--json").stdout)
        self.assertIsInstance(dry["wan_bytes"], int)
        self.assertIsInstance(dry["round_wan_bytes"], int)
        self.assertAlmostEqual(dry["wan_bytes"] / real["wan_bytes"], 1, delta=0.05)
        self.assertAlmostEqual(dry["time_s"] / real["time_s"], 1, delta=0.2)

    def test_resolved_job_runs_to_the_same_result(self):
        first = json.loads(self.run_ok("simulate", self.write(light(JOB)), "--json").stdout)
        again = json.loads(self.run_ok("simulate", self.folder / "runs/small/job.toml", "--out",
                                       self.folder / "again", "--json").stdout)
        first.pop("real_s"), again.pop("real_s")
        self.assertEqual(first, again)

    @nightly
    def test_evaluate_agrees_with_the_summary(self):
        folder, said, _ = small_runs()
        summary = json.loads(said)
        score = json.loads(self.run_ok("evaluate", folder / "run", "--json").stdout)
        self.assertEqual(score["accuracy"], summary["final_accuracy"])
        self.assertEqual(score["params_hash"], summary["params_hash"])


class Jobs(Case):
    def test_own_data_at_every_site(self):
        text = JOB.replace('kind = "synthetic"', 'kind = "csv"\npartition = "local"\n'
                           'labels = ["no", "yes"]')
        for site in ("tokyo", "lima", "oslo"):
            rows = "\n".join(f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}" for i in range(90))
            self.write("a,b,answer\n" + rows + "\n", f"{site}.csv")
            text = text.replace(f'name = "{site}"', f'name = "{site}"\ndata = "{site}.csv"')
        if not GATE:
            summary = json.loads(self.run_ok("simulate", self.write(text), "--json").stdout)
            self.assertGreater(summary["final_accuracy"], 0.8)
        self.run_ok("explain", self.write(text))
        self.bad("simulate", self.write(text.replace('data = "lima.csv"', "")), "--out", "x",
                 names=("[site.lima] data",))

    def test_several_nodes_a_site_and_a_server_beside_them(self):
        text = JOB.replace('kind = "direct"', 'kind = "hub"\n[roles]\nserver = "tokyo"')
        text = text.replace('name = "lima"', 'name = "lima"\nnodes = 3')
        summary = json.loads(self.run_ok("simulate", self.write(light(text)), "--json").stdout)
        self.assertEqual((summary["sites"], summary["nodes"]), (3, 6))
        self.write(text)
        explained = self.run_ok("explain", "job.toml").stdout
        self.assertIn("lima/2", explained)
        self.assertIn("server", explained)

    def test_phantoms_have_times_and_no_numbers(self):
        text = JOB.replace('kind = "logistic"', 'kind = "phantom"\nmbytes = 1')
        text = text.replace('kind = "synthetic"', 'kind = "none"')
        summary = json.loads(self.run_ok("simulate", self.write(text), "--json").stdout)
        self.assertIsNone(summary["final_accuracy"])
        self.assertEqual(summary["params_hash"], "")
        # everyone to everyone: 2 (n-1)/n of 1 MB up from each of 3 sites, 12 times
        self.assertAlmostEqual(summary["wan_bytes"] / (12 * 3 * 2 * 2 / 3 * 1e6), 1, delta=0.01)

    def test_target_and_limits_decide_the_exit_code(self):
        job = self.write(light(JOB))
        for sets, code, reason in chosen(((["stop.target_accuracy=0.5"], 0, "target"),
                                          (["stop.target_accuracy=1.0"], 0, "max_rounds"),
                                          (["stop.max_hours=0.0001"], 0, "max_hours"),
                                          (["stop.max_epochs=0.2"], 0, "max_epochs")), 1, 2, 3):
            args = [part for text in sets for part in ("--set", text)]
            done = self.run_ok("simulate", job, "--force", "--json", *args, code=code)
            self.assertEqual(json.loads(done.stdout)["stop_reason"], reason)


class Returns(Case):
    def test_any_site_may_return_the_first_too(self):
        for site in ("tokyo", "oslo"):
            with self.subTest(site):
                self.write(light(JOB) + f'[[fault]]\nkind = "crash"\nsite = "{site}"\n'
                           "at_s = 0.2\nrestart_s = 1\n[net]\nsilence_s = 1\n")
                done = self.run_ok("simulate", "job.toml", "--json", "--force", "--set",
                                   "stop.max_rounds=100")
                summary = json.loads(done.stdout)
                self.assertEqual(summary["live"], 3, summary)
                self.assertEqual(summary["view_changes"], 2)
                self.assertIn("the run goes on with 3 of 3 nodes", done.stderr)


class FullOutput(Case):
    def test_what_cannot_be_printed_is_no_success(self):
        for words in (["list"], ["explain", "fedavg"], ["--help"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([LONGHAUL, *words], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("standard output cannot be written: No space left", done.stderr)


class Folder(Case):
    def test_refused_forced_resumed(self):
        job = self.write(light(JOB))
        self.run_ok("simulate", job)
        self.bad("simulate", job, names=("--force", "--resume"))
        self.run_ok("simulate", job, "--force")
        self.run_ok("simulate", job, "--resume")  # a finished run: its summary again

    def test_changed_job_is_not_resumed(self):
        job = self.write(light(JOB))
        self.run_ok("simulate", job)
        self.bad("simulate", job, "--resume", "--set", "optimizer.rate=0.2",
                 names=("[optimizer] rate", "0.1", "0.2"))

    def test_foreign_folder_is_left_alone(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine/precious").write_text("x")
        self.bad("simulate", self.write(JOB), "--out", "mine", "--force", names=("mine",))
        self.assertTrue((self.folder / "mine/precious").exists())


ENDLESS = [("max_rounds = 400", "max_rounds = 100000")]  # it is not over before the signal
if GATE:
    ENDLESS += LIGHT


def a_little_more(summary):
    """A run lasts for seconds so that a signal meets it; it need not go on for as long."""
    return "--set", f"stop.max_rounds={summary['rounds'] + (50 if GATE else 200)}"


class Bits(Case):
    def hash_and_metrics(self, out):
        out = pathlib.Path(out)
        return (json.loads((out / "summary.json").read_text())["params_hash"],
                (out / "metrics.jsonl").read_bytes())

    def test_threads_do_not_matter_and_seeds_do(self):
        folder, *_ = small_runs()
        one, two, other = (self.hash_and_metrics(folder / name)
                           for name in ("seeds/seed-5", "run", "seeds/seed-6"))
        self.assertEqual(one, two)
        self.assertNotEqual(one[0], other[0])
        self.assertNotEqual(one[1], other[1])

    def interrupted(self, sign, parts, after):
        """Stops a run by a signal, `after` s after its first checkpoint."""
        text = LONG
        for old, new in parts:
            text = text.replace(old, new)
        job = self.write(text)
        shutil.rmtree(self.folder / "cut", ignore_errors=True)
        args = [LONGHAUL, "simulate", job, "--out", "cut", "--quiet", "--checkpoint-every", "25"]
        process = subprocess.Popen(args, cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE_S
        checkpoints = self.folder / "cut/checkpoints"
        while process.poll() is None and not list(checkpoints.glob("*.checkpoint")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        time.sleep(after)
        process.send_signal(sign)
        process.communicate(timeout=PATIENCE_S)
        return process.returncode, job

    def resume_equals(self, job, *sets):
        """Resumed to its end it is what the run is that nobody stopped."""
        if not (self.folder / "whole").exists():
            self.run_ok("simulate", job, "--out", "whole", "--quiet", "--checkpoint-every", 25,
                        *sets)
        self.run_ok("simulate", job, "--out", "cut", "--quiet", "--resume", *sets)
        self.assertEqual(self.hash_and_metrics(self.folder / "cut"),
                         self.hash_and_metrics(self.folder / "whole"))

    def test_ctrl_c_leaves_a_summary_and_resumes_to_the_same_bits(self):
        code, job = self.interrupted(signal.SIGINT, ENDLESS, 0.05)
        self.assertEqual(code, 130)
        summary = json.loads((self.folder / "cut/summary.json").read_text())
        self.assertEqual(summary["stop_reason"], "interrupted")
        self.assertLess(summary["rounds"], 100000)
        torn = [self.folder / "cut/summary.json.tmp", self.folder / "cut/checkpoints/9.tmp"]
        for file in torn:  # as a second Ctrl-C leaves them that comes while one is written
            file.write_text("{")
        self.resume_equals(job, *a_little_more(summary))
        self.assertFalse([file for file in torn if file.exists()])

    def test_kill_resumes_to_the_same_bits(self):
        for after in chosen((0, 0.03, 0.1), 0):
            code, job = self.interrupted(signal.SIGKILL, ENDLESS if GATE else (), after)
            if code == 0:  # it was done before the signal came
                continue
            self.assertEqual(code, -signal.SIGKILL)
            sets = ()
            if GATE:
                files = (self.folder / "cut/checkpoints").glob("*.checkpoint")
                sets = a_little_more({"rounds": max(int(file.stem) for file in files)})
            self.resume_equals(job, *sets)

    @nightly
    def test_kill_with_other_parts(self):
        parts = (('kind = "fedavg"', 'kind = "diloco"'), ('kind = "direct"', 'kind = "hub"'),
                 ('[optimizer]\nkind = "sgd"\nrate = 0.1\nmomentum = 0.9\n',
                  '[codec]\nkind = "int8"\nerror_feedback = true\n'))
        code, job = self.interrupted(signal.SIGKILL, parts, 0.02)
        if code != 0:
            self.resume_equals(job)

    def test_damaged_checkpoint_falls_back(self):
        code, job = self.interrupted(signal.SIGINT, ENDLESS if GATE else (), 0.1)
        sets = ()
        if GATE:
            sets = a_little_more(json.loads((self.folder / "cut/summary.json").read_text()))
        files = sorted((self.folder / "cut/checkpoints").glob("*.checkpoint"))
        if len(files) == 2:
            files[-1].write_bytes(files[-1].read_bytes()[:-100])
        self.resume_equals(job, *sets)



class Several(Case):
    """Ctrl-C in one of several runs, and --resume for all of them."""

    def stop(self, args, folder, code=130):
        """Ends the command by Ctrl-C once the run in `folder` has written a checkpoint."""
        process = subprocess.Popen([LONGHAUL, *args], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and not list(
                (self.folder / folder / "checkpoints").glob("*.checkpoint")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, code, out + err)
        self.assertIn("--resume", err)
        return out

    def summary_of(self, folder):
        return json.loads((self.folder / folder / "summary.json").read_text())

    def results_of(self, folder):
        return (self.summary_of(folder)["params_hash"],
                (self.folder / folder / "metrics.jsonl").read_text())

    def test_compare(self):
        text = light(LONG).replace("max_rounds = 400", "max_rounds = 100000\ntarget_accuracy = 1.0")
        text = (text.replace("steps = 5", "") + "[for.fedavg.stop]\nmax_rounds = 4\n"
                "[for.fedavg.sync]\nsteps = 5\n[for.diloco.sync]\nsteps = 5\n")
        job = self.write(text)
        args = ["compare", job, "--sync", "fedavg,diloco,bsp", "--quiet", "--out", "c", "--set",
                "job.checkpoint_every=5"]
        out = self.stop(args, "c/diloco")
        fedavg, diloco = out.splitlines()[1:3]
        self.assertIn("not reached", fedavg)
        self.assertIn("interrupted", diloco)
        self.assertFalse((self.folder / "c/bsp").exists())
        before = (self.folder / "c/fedavg/summary.json").stat().st_mtime_ns
        self.bad(*args, names=("c/fedavg", "--resume"))
        rounds = self.summary_of("c/diloco")["rounds"] + (50 if GATE else 200)
        self.write(text.replace("max_rounds = 100000", f"max_rounds = {rounds}"))
        done = json.loads(self.run_ok(*args, "--resume", "--json").stdout)
        self.assertEqual([run["stop_reason"] for run in done["runs"]], ["max_rounds"] * 3)
        self.assertEqual((self.folder / "c/fedavg/summary.json").stat().st_mtime_ns, before)
        self.run_ok("simulate", "c/diloco/job.toml", "--quiet", "--out", "whole")
        self.assertEqual(self.results_of("c/diloco"), self.results_of("whole"))

    @nightly
    def test_seeds(self):
        job = self.write(LONG.replace("max_rounds = 400", "max_rounds = 100000"))
        args = ["simulate", job, "--seeds", "2", "--out", "s", "--quiet", "--checkpoint-every", "5"]
        out = self.stop(args, "s/seed-5")
        self.assertIn("seed 5: interrupted", out)
        self.assertFalse((self.folder / "s/seed-6").exists())
        more = a_little_more(self.summary_of("s/seed-5"))
        done = json.loads(self.run_ok(*args, "--resume", "--json", *more).stdout)
        self.assertEqual((done["seeds"], done["interrupted"]), ([5, 6], []))
        self.assertEqual(f"stop.max_rounds={done['rounds']['min']:g}", more[1])
        self.run_ok("simulate", "s/seed-5/job.toml", "--quiet", "--out", "whole", *more)
        self.assertEqual(self.results_of("s/seed-5"), self.results_of("whole"))

    def test_resume_and_force_exclude_each_other(self):
        self.bad("compare", self.write(JOB), "--sync", "bsp", "--resume", "--force",
                 names=("--resume", "--force"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
