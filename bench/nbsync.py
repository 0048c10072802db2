#!/usr/bin/python3 -B
"""NBSync against ESync and the others on unequal machines: scenarios nb-1, nb-2 and nb-3 of
docs/results/nbsync.md, simulated.

  bench/nbsync.py [--build build/release] [--only TEXT] [--seeds 3] [--resume FILE]

Six workers on links of 66 Mbit/s, 10 ms away from a server that is no limit; steps of 0.04 s (four
of them) and 6 s, 150:1; 44.7 MB on the wire; samples labelled by a teacher, 10 classes. Prints a
table a scenario: the median over the seeds and, in brackets, the range. With --resume, cells that
the file has are not run again.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys
import tempfile

from common import result, run, site

SPEEDS = [40] * 4 + [6000] * 2  # ms a step
TARGETS = (0.70, 0.75, 0.80, 0.82)
MBYTES, MODEL_BYTES = 44.7, 4 * (20 * 64 + 64 + 64 * 10 + 10)
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
kind = "synthetic"
teacher = true
noise = 0
classes = 10
features = 20
samples = 24000
test_samples = 4000
batch = 32
{partition}
[optimizer]
kind = "sgd"
rate = 0.05
[overlay]
kind = "hub"
phases = "{phases}"
[roles]
server = "server"
[wan]
delay_ms = 10
wire_scale = {scale}
[[site]]
name = "server"
roles = ["server"]
up_mbps = 10000
down_mbps = 10000
[sync]
{sync}
"""
MLP = '[model]\nkind = "mlp"\nhidden = [64]\n'
PHANTOM = f'[model]\nkind = "phantom"\nmbytes = {MBYTES}\n'

Kind = collections.namedtuple("Kind", "sync hours report")
# Hours of virtual time: long enough for each to come to rest, or to show that it does not.
NBSYNC, ESYNC = 'kind = "nbsync"', 'kind = "esync"'
PUBLIC = ESYNC + '\nmode = "public"'
KINDS = {
    "nbsync": Kind(NBSYNC, 0.4, 1),
    "esync": Kind(ESYNC, 0.6, 1),
    "esync, public": Kind(PUBLIC, 0.6, 1),
    "fedavg, 20 steps": Kind('kind = "fedavg"\nsteps = 20', 6, 1),
    "fedavg, 5 steps": Kind('kind = "fedavg"\nsteps = 5', 3, 2),
    "bsp": Kind('kind = "bsp"', 3, 10),
}
PARTITIONS = {"IID": "", "Dirichlet 0.5": 'partition = "dirichlet"\nalpha = 0.5',
              "3 labels a worker": 'partition = "shards"\nshards = 3'}


def workers(rate=66):
    return "".join(site(f"w{i}", rate, ms) for i, ms in enumerate(SPEEDS))


def job(kind, seed, partition="", phases="sequential"):
    return JOB.format(seed=seed, rounds=10**6, hours=kind.hours, report=kind.report, model=MLP,
                      phases=phases, partition=partition, scale=MBYTES * 1e6 / MODEL_BYTES,
                      sync=kind.sync) + workers()


def phantom(sync, times):
    """T_sync of so many steps of the slowest: the vector up, and down again."""
    rate = MBYTES * 8 / (times * SPEEDS[-1] / 1000 / 2)
    text = JOB.format(seed=1, rounds=30, hours=100, report=1000, model=PHANTOM, partition="",
                      phases="sequential", scale=1, sync=sync)
    return text + workers(rate)


class Bench:
    def __init__(self, options):
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
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "job.toml"
            path.write_text(text)
            summary = result(run(self.program, "simulate", path, "--json", "--quiet", "--out",
                                 pathlib.Path(folder) / "run", folder=folder), name,
                             codes=(0, 1))  # 1: at max_hours
            events = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        found = {"reached": {}, "best": 0, "steps": 0, "hours": summary["time_s"] / 3600,
                 "utilisation": summary["compute_utilisation"]}
        for event in map(json.loads, events):
            values = event["values"]
            if event["kind"] == "steps" and event["time_s"] > 0.3 * summary["time_s"]:
                found["steps"] += values["value"]
            if event["kind"] != "score" or "accuracy" not in values:
                continue
            found["best"] = max(found["best"], values["accuracy"])
            for target in TARGETS:
                if values["accuracy"] >= target:
                    found["reached"].setdefault(str(target), event["time_s"])
        found["rate"] = found["steps"] / (0.7 * summary["time_s"])
        return found

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


def table(title, rows):
    """Of those that are asked for: (name, cells)."""
    rows = [(name, cells) for name, cells in rows if cells]
    if not rows:
        return
    print(f"\n{title}\n\n|  |", *(f"to {target:.2f}, s |" for target in TARGETS),
          "best accuracy | computing |")
    print("|---|" + "---|" * (len(TARGETS) + 2))
    for name, cells in rows:
        print("|", name, "|", *(f"{reached(cells, target)} |" for target in TARGETS),
              spread([cell["best"] for cell in cells], lambda v: f"{v:.3f}"), "|",
              f"{100 * statistics.median(cell['utilisation'] for cell in cells):.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="cells whose names contain this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--resume", help="a file of cells: read, and written as they are measured")
    bench = Bench(parser.parse_args())

    for data in ("IID", "Dirichlet 0.5"):
        nb1(bench, data)
    nb2(bench)
    nb3(bench)


def nb1(bench, data):
    def cells(name, **options):
        kind, streamed = KINDS[name], "".join(f", {value}" for value in options.values())
        return name + streamed, bench.over_seeds(
            f"nb-1, {data}, {name}{streamed}",
            lambda seed: job(kind, seed, PARTITIONS[data], **options))

    table(f"nb-1, {data}", [*map(cells, KINDS), *(cells(name, phases="streamed")
                                                  for name in ("nbsync", "esync"))])


def nb2(bench):
    rows = []
    for times in (0.5, 1, 3, 10):
        cells = [bench.cell(f"nb-2, {times}, {sync!r}", phantom(sync, times))
                 for sync in (NBSYNC, ESYNC, ESYNC + "\nmargin_s = 0", PUBLIC)]
        if None not in cells:
            rows.append(f"| {times} | {1 + times} |" +
                        "".join(f" {cells[0]['rate'] / cell['rate']:.2f} |" for cell in cells[1:]))
    if rows:
        print("\nnb-2: steps of all workers a second, over those of\n")
        print("| T_sync in steps of the slowest | 1 + that | esync | margin 0 | public |")
        print("|---|---|---|---|---|", *rows, sep="\n")


def nb3(bench):
    part = PARTITIONS["3 labels a worker"]
    kinds = {name: KINDS[name] for name in ("esync", "fedavg, 20 steps")}
    for weights in ("equal", "samples", "steps"):
        for most in (50, 200, 0):
            name = f"{weights} weights, " + (f"at most {most} steps" if most else "any steps")
            kinds[name] = Kind(f'{NBSYNC}\nweights = "{weights}"\nmax_steps = {most}', 0.4, 1)
    table("nb-3: three labels a worker", [
        (name, bench.over_seeds(f"nb-3, {name}", lambda seed, kind=kind: job(kind, seed, part)))
        for name, kind in kinds.items()])


if __name__ == "__main__":
    main()
