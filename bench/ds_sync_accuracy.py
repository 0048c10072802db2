#!/usr/bin/python3 -B
"""DS-Sync against BSP: time to an accuracy, docs/results/ds-sync.md, simulated.

  scripts/fetch-data mnist
  bench/ds_sync_accuracy.py [--build build/release] [--seeds 1,2,3] [--resume FILE]

4 sites of 4 workers train LeNet on MNIST, IID, batch 32, to 97 % of the first 2,500 images of the
test set, which keeps a run short. The bits of these strategies do not depend on the network, so
rounds to that accuracy are measured once for each of bsp, grid and topology, and multiplied by the
seconds a step of the scenarios of bench/ds_sync.py, where the model counts as 40 MB. Those of
`sense` do depend on it: they are run on the network with a slow site itself (slow from 10 s on, the
rate is topology's). Rates are chosen on one grid and one seed that is not reported: the fewest
rounds.
With --resume what the file has is not run again.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import ds_sync
import gaia
from common import result, run

RATES, TUNED_ON = (0.01, 0.03, 0.1), 11
TARGET, MOST_ROUNDS = 0.97, 400
KINDS = {"bsp": 'kind = "bsp"\n', "grid": ds_sync.GRID, "topology": ds_sync.TOPOLOGY}
SLOW = "C + a slow site"
# Of a scenario: what runs bsp, and the others' [sync].
SCENARIOS = {
    "A stragglers": {"bsp": "bsp", "grid": "grid 4x4", "topology": "topology"},
    "C uplink": {"bsp": "bsp, hierarchical", "grid": "grid (rows = sites)",
                 "topology": "topology"},
    "C + contention": {"bsp": "bsp, hierarchical", "topology": "topology"},
    SLOW: {"bsp": "bsp, hierarchical", "topology": "topology"},
}
JOB = """\
[job]
name = "ds-accuracy"
seed = {seed}
checkpoint_every = 0
[stop]
max_rounds = {rounds}
target_accuracy = {target}
[report]
every_rounds = 5
[model]
kind = "lenet"
[data]
kind = "mnist"
path = "{data}"
test_path = "test"
batch = 32
[optimizer]
kind = "sgd"
rate = {rate}
momentum = 0.9
[sync]
{sync}[wan]
delay_ms = 1
"""


class Bench:
    def __init__(self, options):
        self.options = options
        self.program = pathlib.Path(options.build).resolve() / "longhaul"
        self.path = pathlib.Path(options.resume) if options.resume else None
        known = self.path and self.path.exists()
        self.cells = json.loads(self.path.read_text()) if known else {}

    def known(self, name, measure):
        if name not in self.cells:
            self.cells[name] = measure()
            if self.path:
                self.path.write_text(json.dumps(self.cells, indent=1))
            print(name, self.cells[name], file=sys.stderr, flush=True)
        return self.cells[name]

    def simulated(self, text, name):
        with tempfile.TemporaryDirectory(prefix="longhaul-ds-") as folder:
            (pathlib.Path(folder) / "job.toml").write_text(text)
            if "test_path" in text:
                (pathlib.Path(folder) / "test").mkdir()
                gaia.write_test_set(pathlib.Path(self.options.data), pathlib.Path(folder) / "test")
            return result(run(self.program, "simulate", "job.toml", "--out", "run", "--quiet",
                              "--json", folder=folder), name, codes=(0, 1), patience_s=3600)

    def rounds(self, kind, rate, seed):
        """To the accuracy; None: not in MOST_ROUNDS."""
        def measure():
            text = JOB.format(seed=seed, rounds=MOST_ROUNDS, target=TARGET, rate=rate,
                              sync=KINDS[kind], data=pathlib.Path(self.options.data).resolve())
            summary = self.simulated(text + ds_sync.sites(4, 4, 10), name)
            return summary["rounds"] if summary["time_to_target_s"] is not None else None
        name = f"rounds; {kind}; {rate}; {seed}"
        return self.known(name, measure)

    def sensed(self, seed):
        """Rounds and seconds to the accuracy."""
        def measure():
            text = JOB.format(seed=seed, rounds=MOST_ROUNDS, target=TARGET,
                              rate=self.rate("topology"),
                              sync=ds_sync.SENSE + "[overlay]\n" + ds_sync.DIRECT,
                              data=pathlib.Path(self.options.data).resolve())
            wan = (f"wire_scale = {40e6 / gaia.LENET_BYTES}\n" + ds_sync.WARM + ds_sync.SHARED
                   + ds_sync.slow_site(10))
            summary = self.simulated(text.replace("delay_ms = 1\n", wan) + ds_sync.C, name)
            return [summary["rounds"], summary["time_to_target_s"]]
        name = f"sensed; {seed}"
        return self.known(name, measure)

    def rate(self, kind):
        return min(RATES, key=lambda rate: self.rounds(kind, rate, TUNED_ON) or 1e9)

    def step_s(self, scenario, name):
        def measure():
            wan, where, kinds = ds_sync.SCENARIOS[scenario]
            sync, overlay = kinds[name]
            times = [self.simulated(ds_sync.JOB.format(rounds=n, sync=sync, overlay=overlay,
                                                       wan=wan) + where, name)["time_s"]
                     for n in (ds_sync.FIRST, ds_sync.FIRST + self.options.steps)]
            return (times[1] - times[0]) / self.options.steps
        return self.known(f"step; {scenario}; {name}; {self.options.steps}", measure)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--data", default="data/mnist")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=50, help="that a second a step is a mean of")
    parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    bench = Bench(options)
    rounds = {}
    print(f"| to {100 * TARGET:g} % | rate | rounds, seeds {options.seeds} |\n|---|---|---|")
    for kind in KINDS:
        found = [bench.rounds(kind, bench.rate(kind), seed) for seed in seeds]
        rounds[kind] = statistics.median(n or float("inf") for n in found)
        print(f"| {kind} | {bench.rate(kind)} | {', '.join(map(str, found))} |", flush=True)
    print("\n| scenario | | s a step | s to it | of bsp's time | bsp's time over it |\n"
          "|---|---|---|---|---|---|")
    for scenario, names in SCENARIOS.items():
        times = {kind: rounds[kind] * bench.step_s(scenario, name) for kind, name in names.items()}
        for kind, name in names.items():
            print(f"| {scenario} | {name} | {bench.step_s(scenario, name):.3f} "
                  f"| {times[kind]:.0f} | {100 * times[kind] / times['bsp']:.0f} % "
                  f"| {times['bsp'] / times[kind]:.2f} |", flush=True)
        if scenario == SLOW:
            found = [bench.sensed(seed) for seed in seeds]
            own = statistics.median(time or float("inf") for _, time in found)
            rounds_of = ", ".join(str(count) for count, _ in found)
            print(f"| {scenario} | topology, sense (rounds {rounds_of}) | | {own:.0f} "
                  f"| {100 * own / times['bsp']:.0f} % | {times['bsp'] / own:.2f} |", flush=True)


if __name__ == "__main__":
    main()
