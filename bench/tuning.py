#!/usr/bin/python3 -B
"""Strategies for unequal machines, each at its best rate: docs/results/nbsync.md, at other rates.

  bench/tuning.py [--build build/release] [--only TEXT] [--jobs 2] [--resume build/tuning.json]
                  [--kinds NAME,NAME] [--merit time|accuracy]

The scenario nb-1 of bench/nbsync.py. One grid of rates, the same for all; each strategy's rate is
the one with the shortest time to the target on the worse of two seeds that are not reported (of
those that do not get there the highest accuracy), or that with the highest accuracy there. Then
three other seeds at that rate. Prints two tables for each division of the data: best accuracy and
time to the target on the two seeds, by rate; and at the best rate the median over the three and, in
brackets, the range.

What normalisation does for nbsync on skewed labels, against fedavg at its best rate:

  bench/tuning.py --kinds capped,normalised,fedavg --merit accuracy --resume build/tuning.json
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import threading

import nbsync
from unequal import Kind, job, measured, reached, spread

RATES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
TUNED_ON, REPORTED = (11, 12), (1, 2, 3)
TARGET, TARGETS = 0.78, (0.70, 0.75, 0.78, 0.80)
CAPPED = nbsync.NBSYNC + "\nmax_steps = 50"
FEDNOVA = '\nweights = "fednova"'
# Hours: at the rates of the grid that they are best at, long enough to come to rest.
KINDS = {
    "nbsync": nbsync.KINDS["nbsync"],
    "capped": Kind(CAPPED, 0.4, 1),
    "normalised": Kind(CAPPED + FEDNOVA, 1.2, 1),
    "normalised longer": Kind(CAPPED + FEDNOVA, 3, 1),
    "esync": nbsync.KINDS["esync"],
    "esync normalised": Kind(nbsync.ESYNC + FEDNOVA, 0.6, 1),
    "fedavg": nbsync.KINDS["fedavg, 20 steps"],
}
TITLES = {"capped": "nbsync, at most 50 steps", "normalised": "nbsync, at most 50 steps, fednova",
          "normalised longer": "the same for 3 h",
          "esync normalised": "esync, fednova", "fedavg": "fedavg, 20 steps"}


class Tuning:
    def __init__(self, options):
        self.options = options
        self.program = pathlib.Path(options.build).resolve() / "longhaul"
        self.path = pathlib.Path(options.resume) if options.resume else None
        known = self.path and self.path.exists()
        self.cells = json.loads(self.path.read_text()) if known else {}
        self.lock = threading.Lock()

    def run(self, cases):
        """Of (data, kind, rate, seed): those that are not known yet, several at a time."""
        missing = [case for case in cases if self.name(case) not in self.cells]
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for _ in pool.map(self.measure, missing):
                pass

    @staticmethod
    def name(case):
        return "; ".join(map(str, case))

    def measure(self, case):
        data, kind, rate, seed = case
        text = job(KINDS[kind], seed, nbsync.STAR, nbsync.PARTITIONS[data])
        text = text.replace("rate = 0.05", f"rate = {rate}")
        cell = measured(self.program, self.name(case), text, TARGETS)
        with self.lock:
            self.cells[self.name(case)] = cell
            if self.path:
                self.path.write_text(json.dumps(self.cells, indent=1))

    def of(self, data, kind, rate, seeds):
        return [self.cells[self.name((data, kind, rate, seed))] for seed in seeds]

    def best_rate(self, data, kind):
        def merit(rate):
            cells = self.of(data, kind, rate, TUNED_ON)
            if self.options.merit == "accuracy":
                return -statistics.mean(cell["best"] for cell in cells)
            times = [cell["reached"].get(str(TARGET), float("inf")) for cell in cells]
            return max(times), -min(cell["best"] for cell in cells)
        return min(RATES, key=merit)


def grid(tuning, data, kinds):
    """Best accuracy and time to the target of the two seeds, by rate."""
    print(f"\n| {data} |", *(f"{TITLES.get(kind, kind)} |" for kind in kinds))
    print("|---|" + "---|" * len(kinds))
    for rate in RATES:
        print("|", rate, "|", end="")
        for kind in kinds:
            cells = tuning.of(data, kind, rate, TUNED_ON)
            best = ", ".join(f"{cell['best']:.3f}" for cell in cells)
            times = (cell["reached"].get(str(TARGET)) for cell in cells)
            print(f" {best};", ", ".join(f"{time:.0f}" if time else "-" for time in times), "s |",
                  end="")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="divisions of the data whose names contain this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(KINDS), help="which, by name")
    parser.add_argument("--merit", choices=["time", "accuracy"], default="time",
                        help="what the best rate is the best by")
    parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
    tuning = Tuning(parser.parse_args())
    kinds = tuning.options.kinds.split(",")
    for data in (name for name in nbsync.PARTITIONS if tuning.options.only in name):
        tuning.run([(data, kind, rate, seed)
                    for kind in kinds for rate in RATES for seed in TUNED_ON])
        grid(tuning, data, kinds)
        rates = {kind: tuning.best_rate(data, kind) for kind in kinds}
        tuning.run([(data, kind, rates[kind], seed) for kind in kinds for seed in REPORTED])
        print(f"\n| {data} | rate |", *(f"to {target:.2f}, s |" for target in TARGETS),
              "best accuracy |")
        print("|---|---|" + "---|" * (len(TARGETS) + 1))
        for kind, rate in rates.items():
            cells = tuning.of(data, kind, rate, REPORTED)
            print("|", TITLES.get(kind, kind), "|", rate, "|",
                  *(f"{reached(cells, target)} |" for target in TARGETS),
                  spread([cell["best"] for cell in cells], lambda v: f"{v:.3f}"), "|", flush=True)


if __name__ == "__main__":
    main()
