"""What benchmarks of strategies on unequal machines share: jobs on samples that a teacher labels,
cells that are measured once and kept, and their tables."""
import argparse
import collections
import json
import pathlib
import statistics
import sys
import tempfile

from common import result, run, site

TARGETS = (0.70, 0.75, 0.80, 0.82)
MBYTES = 44.7
PATIENCE_S = 3600  # of one cell, on a machine that does other things
JOB = """\
[job]
name = "nb"
seed = {seed}
[stop]
max_rounds = {rounds}
max_hours = {hours}
[report]
every_rounds = {report}
{model}
[data]
{data}
batch = 32
{partition}
[optimizer]
kind = "sgd"
rate = 0.05
[overlay]
kind = "hub"
{overlay}
[wan]
delay_ms = {delay_ms}
wire_scale = {scale}
[sync]
{sync}
"""
# A strategy with a server of its own finds the site with that role; a hub is told.
HUB = '[roles]\nserver = "server"\n'
SEQUENTIAL = 'phases = "sequential"\n' + HUB
# What is learned: its tables, and the bytes of the model.
Task = collections.namedtuple("Task", "model data bytes")
TEACHER = Task('[model]\nkind = "mlp"\nhidden = [64]\n', """\
kind = "synthetic"
teacher = true
noise = 0
classes = 10
features = 20
samples = 24000
test_samples = 4000""", 4 * (20 * 64 + 64 + 64 * 10 + 10))
PHANTOM = f'[model]\nkind = "phantom"\nmbytes = {MBYTES}\n'

# Hours of virtual time; whether it talks to the server by itself, not through an overlay.
Kind = collections.namedtuple("Kind", "sync hours report served", defaults=(False,))


def workers(steps_ms, mbps):
    return "".join(site(f"w{i}", mbps, ms) for i, ms in enumerate(steps_ms))


def job(kind, seed, sites, partition="", overlay=None, delay_ms=10, task=TEACHER):
    """`overlay`: keys of [overlay]; by default phases are sequential, where there are any."""
    if overlay is None:
        overlay = "" if kind.served else SEQUENTIAL
    return JOB.format(seed=seed, rounds=10**6, hours=kind.hours, report=kind.report,
                      model=task.model, data=task.data, overlay=overlay, partition=partition,
                      scale=MBYTES * 1e6 / task.bytes, delay_ms=delay_ms, sync=kind.sync) + sites


def phantom(sync, sites, rounds=30, delay_ms=10):
    return JOB.format(seed=1, rounds=rounds, hours=1000, report=1000, model=PHANTOM,
                      data=TEACHER.data, partition="", overlay=SEQUENTIAL, scale=1,
                      delay_ms=delay_ms, sync=sync) + sites


def measured(program, name, text, targets):
    """The events of a run of the job, boiled down."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "job.toml"
        path.write_text(text)
        summary = result(run(program, "simulate", path, "--json", "--quiet", "--out",
                             pathlib.Path(folder) / "run", folder=folder), name,
                         codes=(0, 1), patience_s=PATIENCE_S)  # 1: at max_hours
        events = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
    found = {"reached": {}, "best": 0, "final": summary.get("final_accuracy"), "steps": 0,
             "hours": summary["time_s"] / 3600,
             "rounds_s": summary["rounds"] / summary["time_s"],
             "utilisation": summary["compute_utilisation"]}
    for event in map(json.loads, events):
        values = event["values"]
        if event["kind"] == "steps" and event["time_s"] > 0.3 * summary["time_s"]:
            found["steps"] += values["value"]
        if event["kind"] != "score" or "accuracy" not in values:
            continue
        found["best"] = max(found["best"], values["accuracy"])
        for target in targets:
            if values["accuracy"] >= target:
                found["reached"].setdefault(str(target), event["time_s"])
    found["rate"] = found["steps"] / (0.7 * summary["time_s"])  # of all workers, a second
    return found


class Bench:
    """Runs a script's cells, as its command line says."""

    def __init__(self, doc, targets=TARGETS):
        self.targets = targets
        parser = argparse.ArgumentParser(description=doc,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", default="build/release")
        parser.add_argument("--only", default="", help="cells whose names contain this")
        parser.add_argument("--seeds", type=int, default=3)
        parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
        options = parser.parse_args()
        self.program = pathlib.Path(options.build).resolve() / "longhaul"
        self.only, self.seeds, self.path = options.only, options.seeds, options.resume
        self.known = {}
        if self.path and pathlib.Path(self.path).exists():
            self.known = json.loads(pathlib.Path(self.path).read_text())

    def cell(self, name, text):
        """The events of the run, boiled down; None: not asked for."""
        if self.only not in name:
            return None
        if name not in self.known:
            self.known[name] = self.measure(name, text)
            if self.path:
                pathlib.Path(self.path).write_text(json.dumps(self.known, indent=1))
            print(name, json.dumps(self.known[name]), file=sys.stderr)
        return self.known[name]

    def measure(self, name, text):
        return measured(self.program, name, text, self.targets)

    def over_seeds(self, name, make):
        cells = [self.cell(f"{name}, seed {seed}", make(seed)) for seed in range(1, self.seeds + 1)]
        return None if None in cells else cells


def spread(values, form):
    text = form(statistics.median(values))
    if len(values) > 1 and form(min(values)) != form(max(values)):
        text += f" ({form(min(values))}-{form(max(values))})"
    return text


def reached(cells, target):
    times = [cell["reached"].get(str(target)) for cell in cells]
    if None in times:
        found = [time for time in times if time is not None]
        return f"{len(found)} of {len(times)}" if found else "-"
    return spread(times, lambda v: f"{v:.0f}")


def table(title, rows, targets=TARGETS):
    """Of those that are asked for: (name, cells)."""
    rows = [(name, cells) for name, cells in rows if cells]
    if not rows:
        return
    print(f"\n{title}\n\n|  |", *(f"to {target:.2f}, s |" for target in targets),
          "best accuracy | computing |")
    print("|---|" + "---|" * (len(targets) + 2))
    for name, cells in rows:
        print("|", name, "|", *(f"{reached(cells, target)} |" for target in targets),
              spread([cell["best"] for cell in cells], lambda v: f"{v:.3f}"), "|",
              f"{100 * statistics.median(cell['utilisation'] for cell in cells):.1f} % |")
