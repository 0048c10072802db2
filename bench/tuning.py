#!/usr/bin/python3 -B
"""Strategies for unequal machines, each at its best rate: docs/results/nbsync.md, at other rates.

  bench/tuning.py [--build build/release] [--only TEXT] [--jobs 2] [--resume build/tuning.json]

The scenario nb-1 of bench/nbsync.py. One grid of rates, the same for all; each strategy's rate is
the one with the shortest median time to the target on two seeds that are not reported (of those
that do not get there the highest accuracy). Then three other seeds at that rate. Prints a table for
each division of the data: the rate, the median over the seeds and, in brackets, the range.
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import threading

import nbsync
from unequal import Kind, job, measured, reached, spread

RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
TUNED_ON, REPORTED = (11, 12), (1, 2, 3)
TARGET, TARGETS = 0.78, (0.70, 0.75, 0.78, 0.80)
CAPPED = nbsync.NBSYNC + "\nmax_steps = 50"
KINDS = {
    "nbsync": nbsync.KINDS["nbsync"],
    "nbsync, at most 50 steps": Kind(CAPPED, 0.4, 1),
    "the same, fednova": Kind(CAPPED + '\nweights = "fednova"', 0.4, 1),
    "esync": nbsync.KINDS["esync"],
    "esync, fednova": Kind(nbsync.ESYNC + '\nweights = "fednova"', 0.6, 1),
    "fedavg, 20 steps": Kind('kind = "fedavg"\nsteps = 20', 3, 1),
}


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
            times = [cell["reached"].get(str(TARGET), float("inf")) for cell in cells]
            return max(times), -min(cell["best"] for cell in cells)
        return min(RATES, key=merit)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="divisions of the data whose names contain this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
    tuning = Tuning(parser.parse_args())
    for data in (name for name in nbsync.PARTITIONS if tuning.options.only in name):
        tuning.run([(data, kind, rate, seed)
                    for kind in KINDS for rate in RATES for seed in TUNED_ON])
        rates = {kind: tuning.best_rate(data, kind) for kind in KINDS}
        tuning.run([(data, kind, rates[kind], seed) for kind in KINDS for seed in REPORTED])
        print(f"\n| {data} | rate |", *(f"to {target:.2f}, s |" for target in TARGETS),
              "best accuracy |")
        print("|---|---|" + "---|" * (len(TARGETS) + 1))
        for kind, rate in rates.items():
            cells = tuning.of(data, kind, rate, REPORTED)
            print("|", kind, "|", rate, "|", *(f"{reached(cells, target)} |" for target in TARGETS),
                  spread([cell["best"] for cell in cells], lambda v: f"{v:.3f}"), "|")


if __name__ == "__main__":
    main()
