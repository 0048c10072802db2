#!/usr/bin/python3 -B
"""Skewed labels and what they cost: docs/results/skew.md, simulated.

  scripts/fetch-data mnist
  bench/skew.py [--build build/release] [--only TEXT] [--steps 600] [--resume FILE]

LeNet on MNIST over five sites, 100 Mbit/s and 60 ms between each two, batch 20. Each strategy on
labels that are shuffled and on labels of which each site holds two. All take the same number of
local steps; prints the accuracy of the final model, bytes between sites, and for skewscout the
value it ends with.
"""
import argparse
import json
import pathlib
import sys
import tempfile

from common import result, run

JOB = """\
[job]
name = "skew"
seed = 1
[stop]
max_rounds = {rounds}
[report]
every_rounds = {rounds}
[model]
kind = "lenet"
[data]
kind = "mnist"
path = "{data}"
batch = 20
{partition}
[optimizer]
kind = "sgd"
rate = {rate}
momentum = 0.9
[sync]
{sync}
[wan]
mbps = 100
delay_ms = 60
"""
SITES = ("virginia", "oregon", "frankfurt", "tokyo", "singapore")
PARTITIONS = {"shuffled": 'partition = "iid"', "skewed": 'partition = "by_label"'}
# Settings, and local steps of a round.
KINDS = {
    "bsp": ('kind = "bsp"', 1),
    "gaia .02": ('kind = "gaia"\nsignificance = 0.02\nstaleness = 0', 1),
    "gaia .2": ('kind = "gaia"\nsignificance = 0.2\nstaleness = 0', 1),
    "gaia .2 const": ('kind = "gaia"\nsignificance = 0.2\nthreshold = "const"\nstaleness = 0', 1),
    "fedavg 50": ('kind = "fedavg"\nsteps = 50\nweights = "equal"\nreset_optimizer = false', 50),
    "skewscout": ('kind = "skewscout"\nstrategy = "gaia"\n'
                  'with = ["staleness = 0", "threshold = const"]\n'
                  'travel_every = 50\nannounce = 10', 1),
}


class Bench:
    def __init__(self):
        parser = argparse.ArgumentParser(description=__doc__,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", default="build/release")
        parser.add_argument("--data", default="data/mnist")
        parser.add_argument("--only", default="", help="cells whose names contain this")
        parser.add_argument("--steps", type=int, default=600)
        parser.add_argument("--rate", type=float, default=0.01)
        parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
        self.options = parser.parse_args()
        self.known = {}
        self.path = pathlib.Path(self.options.resume) if self.options.resume else None
        if self.path and self.path.exists():
            self.known = json.loads(self.path.read_text())

    def cell(self, partition, kind):
        name = f"{partition}; {kind}; {self.options.steps}; {self.options.rate}"
        if name not in self.known:
            self.known[name] = self.measure(partition, kind, name)
            if self.path:
                self.path.write_text(json.dumps(self.known, indent=1))
            print(name, self.known[name], file=sys.stderr)
        return self.known[name]

    def measure(self, partition, kind, name):
        sync, steps = KINDS[kind]
        text = JOB.format(rounds=max(1, self.options.steps // steps), sync=sync,
                          partition=PARTITIONS[partition], rate=self.options.rate,
                          data=pathlib.Path(self.options.data).resolve())
        text += "".join(f'[[site]]\nname = "{site}"\nstep_ms = 50\n' for site in SITES)
        program = pathlib.Path(self.options.build).resolve() / "longhaul"
        with tempfile.TemporaryDirectory() as folder:
            job = pathlib.Path(folder) / "job.toml"
            job.write_text(text)
            summary = result(run(program, "simulate", job, "--json", "--quiet", "--out",
                                 pathlib.Path(folder) / "run", folder=folder), name,
                             patience_s=3600)
            lines = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]

        def values(figure):
            return [event["values"]["value"] for event in events if event["kind"] == figure]

        return {"accuracy": summary["final_accuracy"], "time_s": summary["time_s"],
                "mb": summary["wan_bytes"] / 1e6, "travel_mb": sum(values("travel_bytes")) / 1e6,
                "theta": (values("theta") or [None])[-1],
                "losses": [round(loss, 3) for loss in values("accuracy_loss")]}


def main():
    bench = Bench()
    rows = []
    for partition in PARTITIONS:
        for kind in KINDS:
            if bench.options.only not in f"{partition}; {kind}":
                continue
            cell = bench.cell(partition, kind)
            theta = "-" if cell["theta"] is None else f"{cell['theta']:g}"
            rows.append(f"| {partition} | {kind} | {100 * cell['accuracy']:.2f} % "
                        f"| {cell['mb'] - cell['travel_mb']:.0f} | {cell['travel_mb']:.1f} "
                        f"| {cell['time_s']:.0f} | {theta} |")
    print("| labels | strategy | accuracy | MB between sites | MB of travels | s | ends with |")
    print("|---|---|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
