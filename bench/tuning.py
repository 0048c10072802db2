#!/usr/bin/python3 -B
"""Each strategy at its best rate and number of local steps: docs/results/tuned.md, with all rows in
bench/results/tuned.csv and tuned-grid.csv.

  bench/tuning.py [--build build/release] [--only TEXT] [--jobs 2] [--resume build/tuning.json]
                  [--write FILE]
  bench/tuning.py --normalised [--kinds NAME,NAME]    by accuracy: part of docs/results/nbsync.md

The scenarios of docs/results/nbsync.md, esync.md, fedgsync.md and strategies.md, simulated. One
grid of rates, the same for all, and one of local steps for the strategies that have them. A cell is
a run until the scenario's target. A strategy's best cell is the one with the shortest time on the
worse of two seeds that are not reported; then three other seeds run with it. A cell of the grid is
cut off after the strategy's best time so far, three times over, and at the scenario's budget.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import statistics
import tempfile
import textwrap
import threading

import esync
import fedgsync
import nbsync
import strategies
from common import write_csv
from unequal import SEQUENTIAL, TEACHER, Kind, job, measured, reached, spread, workers

RATES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
ORDER = (0.2, 0.4, 0.1, 0.8, 0.05, 1.6, 0.02)  # from the middle: a good time is known early
STEPS = (5, 20, 80)
TUNED_ON, REPORTED = (11, 12), (1, 2, 3)
PATIENCE = 3  # times a strategy's best time so far

# `text`: of (sync, seed, rate, hours) the job; `hours`: no run is longer; `syncs`: name: keys of
# [sync], where STEPS is what the grid puts in; `target`: of accuracy; `easier`: reported as well.
Scenario = collections.namedtuple("Scenario", "text hours syncs target easier")
LOCAL = ("fedavg", "fedasync", "easgd")  # with `steps`


def syncs(*names, **more):
    found = {name: f'kind = "{name}"' + ("\nsteps = STEPS" if name in LOCAL else "")
             for name in names}
    return {**found, **more}


def served(sync):
    return any(f'"{name}"' in sync for name in ("ssp", "asp", "fedasync", "easgd"))


def at(text, rate, old):
    assert text.count(f"rate = {old}\n") == 1
    return text.replace(f"rate = {old}\n", f"rate = {rate}\n")


def unequal_job(sites, partition="", delay_ms=10, every=1):
    """Of nb-1, es-1 and es-2; lock step is scored every tenth round only."""
    def text(sync, seed, rate, hours):
        report = 10 if any(f'"{name}"' in sync for name in ("bsp", "ssp", "asp")) else every
        kind = Kind(sync, hours, report, served(sync))
        return at(job(kind, seed, sites, partition, delay_ms=delay_ms), rate, 0.05)
    return text


def groups_job(folder, speeds, mbps):
    """Of fg-1 and fg-2: each worker's labels are in a file of its own."""
    where = fedgsync.sites(folder, speeds, mbps)
    task = TEACHER._replace(data='kind = "csv"\npartition = "local"\nclasses = 10\n'
                                 f'test_path = "{folder}/test.csv"')

    def text(sync, seed, rate, hours):
        overlay = SEQUENTIAL if '"fedavg"' in sync or '"fedssgd"' in sync else ""
        return at(job(Kind(sync, hours, 1), seed, where, overlay=overlay, delay_ms=20, task=task),
                  rate, 0.05)
    return text


def small_job(sync, seed, rate, hours):
    return at(strategies.JOB.format(seed=seed, hours=hours, sync=sync), rate, 0.2)


def scenarios(folder):
    unequal = syncs("nbsync", "esync", "bsp", "ssp", "asp", "fedavg", "fedasync", "easgd")
    unequal["nbsync, at most 50 steps"] = 'kind = "nbsync"\nmax_steps = 50'
    unequal["esync, public"] = 'kind = "esync"\nmode = "public"'
    grouped = syncs("fedavg", "fedasync", **{
        name: f'kind = "{name}"\nsteps = STEPS' for name in ("fedgsync", "fedat")},
        **{"fedssgd, semi": 'kind = "fedssgd"\nreading = "semi"'})
    skewed = {name: unequal[name]
              for name in ("nbsync", "nbsync, at most 50 steps", "esync", "fedavg")}
    two = {name: unequal[name] for name in ("bsp", "esync, public", "esync")}
    plain = ("bsp", "fedavg", "fedssgd", "esync", "nbsync", "easgd", "asp", "ssp", "fedasync")
    small = syncs(*plain, **{
        "fedprox": 'kind = "fedprox"\nsteps = STEPS\ndeadline_s = 1.0',
        "fedssgd, semi": 'kind = "fedssgd"\nreading = "semi"\nsteps = 3',
        "easgd, synchronous": 'kind = "easgd"\nsteps = STEPS\nsynchronous = true',
        "fedat": 'kind = "fedat"\ntiers = 2\nsteps = STEPS',
        "fedgsync": 'kind = "fedgsync"\ngroups = 2\nsteps = STEPS'})
    part = nbsync.PARTITIONS
    star = {name: unequal_job(esync.sites(name), delay_ms=esync.DELAY_MS[name])
            for name in esync.STEPS}
    return {
        "nb-1, IID": Scenario(unequal_job(nbsync.STAR), 3, unequal, 0.82, 0.80),
        "nb-1, Dirichlet 0.5": Scenario(
            unequal_job(nbsync.STAR, part["Dirichlet 0.5"]), 1, skewed, 0.78, 0.75),
        "nb-1, three labels a worker": Scenario(
            unequal_job(nbsync.STAR, part["3 labels a worker"]), 1, skewed, 0.75, 0.70),
        "nb-1, IID, 22 Mbit/s": Scenario(
            unequal_job(nbsync.SERVER + workers(nbsync.SPEEDS, 22)), 1,
            {name: unequal[name] for name in ("nbsync", "esync")}, 0.82, 0.80),
        "es-1": Scenario(star["es-1"], 2, two, 0.82, 0.80),
        "es-2": Scenario(star["es-2"], 4, two, 0.80, 0.75),
        "fg-1, 5.0 s a transfer": Scenario(
            groups_job(folder, fedgsync.WITHIN, 72), 1, grouped, 0.75, 0.65),
        "fg-2": Scenario(groups_job(folder, fedgsync.FOLLOWING, 450), 1, grouped, 0.75, 0.65),
        "small": Scenario(small_job, 0.05, small, 0.80, 0.75),
    }


class Cells:
    """Runs that are made once and kept."""

    def __init__(self, options):
        self.program = pathlib.Path(options.build).resolve() / "longhaul"
        self.path = pathlib.Path(options.resume) if options.resume else None
        known = self.path and self.path.exists()
        self.known = json.loads(self.path.read_text()) if known else {}
        self.lock = threading.Lock()

    def get(self, name, text, targets, stop=None):
        """`stop`: the accuracy that ends the run."""
        if name not in self.known:
            if stop:
                text = text.replace("[stop]\n", f"[stop]\ntarget_accuracy = {stop}\n", 1)
            cell = measured(self.program, name, text, targets)
            with self.lock:
                self.known[name] = cell
                if self.path:
                    self.path.write_text(json.dumps(self.known, indent=1))
        return self.known[name]


class Search:
    """One strategy in one scenario: its grid, its best cell, and the seeds that are reported."""

    def __init__(self, cells, where, scenario, name):
        self.cells, self.where, self.scenario, self.name = cells, where, scenario, name
        sync = scenario.syncs[name]
        self.ways = {steps: sync.replace("STEPS", str(steps)) for steps in STEPS} \
            if "STEPS" in sync else {None: sync}
        self.times = {}  # of (steps, rate): the worse seed's time; None: not reached when cut off
        self.limits = {}  # of those: hours
        self.best = None

    def cell(self, steps, rate, seed, hours):
        what = f"{self.where}; {self.name}; {steps}; {rate}; {seed}"
        text = self.scenario.text(self.ways[steps], seed, rate, hours)
        return self.cells.get(what, text, (self.scenario.easier, self.scenario.target),
                              self.scenario.target)

    def run(self):
        shortest = self.scenario.hours * 3600
        for rate in ORDER:
            for steps in self.ways:
                hours = min(self.scenario.hours, PATIENCE * shortest / 3600)
                worst = 0
                for seed in TUNED_ON:
                    time = self.cell(steps, rate, seed, hours)["reached"].get(
                        str(self.scenario.target))
                    worst = max(worst, time) if time and worst is not None else None
                    if worst is None:
                        break  # the other seed cannot make it better
                self.times[steps, rate], self.limits[steps, rate] = worst, hours
                if worst and worst < shortest:
                    shortest, self.best = worst, (steps, rate)
        if self.best:
            self.reported = [self.cell(*self.best, seed, self.scenario.hours) for seed in REPORTED]

    def row(self):
        """Of HEAD, without the scenario and the accuracies."""
        if not self.best:
            return [self.name, "", "", "-", "-", ""]
        steps, rate = self.best
        return [self.name, rate, steps or "", reached(self.reported, self.scenario.easier),
                reached(self.reported, self.scenario.target),
                "" if RATES[0] < rate < RATES[-1] else "yes"]

    def curve(self):
        """Of each rate the best number of steps."""
        row = [self.name]
        for rate in RATES:
            times = [self.times[steps, rate] for steps in self.ways if self.times[steps, rate]]
            limit = max(self.limits[steps, rate] for steps in self.ways) * 3600
            row.append(f"{min(times):.0f}" if times else f"> {limit:.0f}")
        return row


def in_order(scenario, found):
    """The quickest first."""
    def key(search):
        times = [cell["reached"].get(str(scenario.target)) for cell in search.reported] \
            if search.best else []
        return statistics.median(time or float("inf") for time in times) if times else float("inf")

    return sorted(found, key=key)


HEAD = ["scenario", "strategy", "rate", "steps", "easier", "to_easier_s", "target", "to_target_s",
        "at_the_end_of_the_grid", "longest_run_h"]
SHOWN = 3  # strategies of a scenario


def is_tie(first, other):
    """Whether the ranges of two rows of HEAD overlap or touch; not of variants of one strategy."""
    def ends(row):
        return [float(end) for end in re.findall(r"[\d.]+", row[7].partition("(")[2] or row[7])]

    kinds = [row[1].partition(",")[0] for row in (first, other)]
    return (kinds[0] != kinds[1] and " of " not in first[7] + other[7] and
            ends(other)[0] <= ends(first)[-1])


def page(rows):
    """Markdown of rows of HEAD, in which the quickest of a scenario is first."""
    found = collections.defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    first = collections.Counter(group[0][1] for group in found.values())
    rates = collections.Counter(float(row[2]) for row in rows if row[2])
    wins = ", ".join(f"{name} in {count}" for name, count in first.most_common())
    ties = sum(any(is_tie(group[0], row) for row in group[1:]) for group in found.values())
    lead, *more = [textwrap.fill(text, 119, break_on_hyphens=False) for text in (
        f"To choose a strategy: fastest to the target are {wins} of {len(found)} scenarios; in "
        f"{ties} of them another strategy ties: its range overlaps or touches. The "
        f"best rates of all strategies are {min(rates)} to {max(rates)}, most "
        f"often {rates.most_common(1)[0][0]}.",
        "The table shows median seconds to the accuracy (range), simulated, with seeds "
        f"{', '.join(map(str, REPORTED))}. Each strategy has its best cell of one grid: rates "
        f"{', '.join(map(str, RATES))} and, if it has local steps, {', '.join(map(str, STEPS))}. "
        "The best cell has the shortest time on the worse of seeds "
        f"{' and '.join(map(str, TUNED_ON))}. '1 of 3': one seed reached the accuracy.",
        "[tuned.csv](../../bench/results/tuned.csv) has all strategies, rates and steps, "
        "[tuned-grid.csv](../../bench/results/tuned-grid.csv) the grid; a cell is cut off at "
        f"{PATIENCE} times the strategy's best time so far. Scenarios: nb-1 [nbsync](nbsync.md), "
        "es [esync](esync.md), fg [fedgsync](fedgsync.md), small [strategies](strategies.md).")]
    lines = ["| scenario, accuracy | first | second | third | last | strategies run |",
             "|---" * (SHOWN + 3) + "|"]
    for name, group in found.items():
        cells = [f"{row[1]} {row[7]}" for row in group[:SHOWN]] + [""] * (SHOWN - len(group))
        last = f"{group[-1][1]} {group[-1][7]}" if len(group) > SHOWN else ""
        lines.append(f"| {name}, {group[0][6]} | {' | '.join(cells)} | {last} | {len(group)} |")
    return "\n\n".join([
        "# Each strategy at its best rate", lead,
        "    make bench-tuning\n    bench/tuning.py --only es-1", "\n".join(lines), *more]) + "\n"


def tuned(options, cells):
    """Rows of HEAD, and of the grid."""
    rows, grid = [], []
    with tempfile.TemporaryDirectory(prefix="longhaul-tuning-") as name, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folder = pathlib.Path(name)
        fedgsync.write_data(folder)
        for where, scenario in scenarios(folder).items():
            if options.only not in where:
                continue
            found = [Search(cells, where, scenario, name) for name in scenario.syncs]
            for _ in pool.map(Search.run, found):
                pass
            for search in in_order(scenario, found):
                name, rate, steps, easier, target, at_the_end = search.row()
                rows.append([where, name, rate, steps, f"{scenario.easier:.2f}", easier,
                             f"{scenario.target:.2f}", target, at_the_end, scenario.hours])
                grid.append([where, f"{scenario.target:.2f}", *search.curve()])
                print(*rows[-1], *grid[-1][3:], sep=", ", flush=True)
    return rows, grid


# The sections "At other rates" and "Normalised" of docs/results/nbsync.md: runs of a given length,
# the best rate by accuracy.
CAPPED, FEDNOVA = 'kind = "nbsync"\nmax_steps = 50', '\nweights = "fednova"'
NORMALISED_RATES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
NORMALISED = {  # hours: at the rates that each is best at, long enough to come to rest
    "nbsync": nbsync.KINDS["nbsync"],
    "capped": Kind(CAPPED, 0.4, 1),  # at most 50 steps
    "capped-fednova": Kind(CAPPED + FEDNOVA, 1.2, 1),
    "capped-fednova-3h": Kind(CAPPED + FEDNOVA, 3, 1),
    "esync": nbsync.KINDS["esync"],
    "esync-fednova": Kind(nbsync.ESYNC + FEDNOVA, 0.6, 1),
    "fedavg": nbsync.KINDS["fedavg, 20 steps"],
}
NORMALISED_TARGETS, NORMALISED_TARGET = (0.70, 0.75, 0.78, 0.80), 0.78


def normalised(options, cells):
    def cell(case):
        data, name, rate, seed = case
        text = at(job(NORMALISED[name], seed, nbsync.STAR, nbsync.PARTITIONS[data]), rate, 0.05)
        return cells.get("; ".join(map(str, case)), text, NORMALISED_TARGETS)

    for data in (name for name in nbsync.PARTITIONS if options.only in name):
        best = {}
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for name in options.kinds.split(","):
                print(f"\n{data}, {name}: accuracy, and s to {NORMALISED_TARGET}, of seeds",
                      *TUNED_ON)
                means = {}
                for rate in NORMALISED_RATES:
                    runs = list(pool.map(cell, [(data, name, rate, seed) for seed in TUNED_ON]))
                    means[rate] = statistics.mean(run["best"] for run in runs)
                    print(f"  {rate}:", ", ".join(
                        f"{run['best']:.3f} {run['reached'].get(str(NORMALISED_TARGET), '-')}"
                        for run in runs), flush=True)
                rate = max(means, key=means.get)
                best[name] = rate, list(pool.map(cell, [(data, name, rate, s) for s in REPORTED]))
        print(f"\n| {data} | rate |", *(f"to {target:.2f}, s |" for target in NORMALISED_TARGETS),
              "best accuracy |\n" + "|---" * (len(NORMALISED_TARGETS) + 3) + "|")
        for name, (rate, runs) in best.items():
            print("|", name, "|", rate, "|",
                  *(f"{reached(runs, target)} |" for target in NORMALISED_TARGETS),
                  spread([run["best"] for run in runs], lambda v: f"{v:.3f}"), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="scenarios whose names contain this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--normalised", action="store_true", help="these sections alone")
    parser.add_argument("--kinds", default="capped,capped-fednova,fedavg",
                        help=f"of --normalised: {', '.join(NORMALISED)}")
    parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
    parser.add_argument("--write", help="file for the page, as Markdown")
    options = parser.parse_args()
    cells = Cells(options)
    if options.normalised:
        normalised(options, cells)
        return
    rows, grid = tuned(options, cells)
    if options.write:
        write_csv("tuned", HEAD, rows)
        write_csv("tuned-grid", ["scenario", "target", "strategy", *RATES], grid)
        pathlib.Path(options.write).write_text(page(rows))


if __name__ == "__main__":
    main()
