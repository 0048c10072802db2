#!/usr/bin/python3 -B
"""Gaia on 11 sites against lock-step without a threshold: docs/results/gaia.md, simulated.

  scripts/fetch-data mnist
  bench/gaia.py [--build build/release] [--only TEXT] [--clocks 120] [--resume FILE]

LeNet on MNIST, IID, 500 ms a step; a dense model counts as 27.2 MB on the wire. All kinds have the
rate of a grid with which lock-step without a threshold (`bsp`) is most accurate after so many
clocks. The others end when they are as accurate as that less 0.5 points, or after 700 clocks.
Prints for each network and kind: accuracy at the end, clocks, time, bytes between sites, share of
the values that were sent, and when that accuracy was reached.
"""
import argparse
import json
import pathlib
import sys
import tempfile

from common import result, run

LENET_BYTES = 4 * 61706
JOB = """\
[job]
name = "gaia-bench"
seed = 1
[stop]
max_rounds = {clocks}
{target}[report]
every_rounds = 5
[model]
kind = "lenet"
[data]
kind = "mnist"
path = "{data}"
batch = 32
[optimizer]
kind = "sgd"
rate = {rate}
momentum = 0.9
[sync]
{sync}
{wan}
wire_scale = {scale}
"""
STEPS = '[[site]]\nname = "{}"\nstep_ms = 500\nup_mbps = {}\ndown_mbps = {}\n'
SITES = ("virginia", "california", "oregon", "ireland", "frankfurt", "tokyo", "seoul", "singapore",
         "sydney", "mumbai", "saopaulo")
NETWORKS = {
    "gaia-11": ('[wan]\npreset = "gaia-11"', 1000),
    "uniform-ss": ('[wan]\npreset = "uniform-ss"', 1000),
    "lan": ("[wan]\ndelay_ms = 0.5", 1000),
    "gaia-11, up 66 Mbit/s": ('[wan]\npreset = "gaia-11"', 66),
}
GAIA = 'kind = "gaia"\nsignificance = {}\nstaleness = {}\nexchange = "{}"'
KINDS = {
    "bsp": GAIA.format(0, 0, "direct"),
    "gaia .05": GAIA.format(0.05, 0, "direct"),
    "gaia .05, staleness 1": GAIA.format(0.05, 1, "direct"),
    "gaia .2": GAIA.format(0.2, 0, "direct"),
    "gaia .05, gaia_hubs": GAIA.format(0.05, 0, "gaia_hubs"),
    "gaia .05, peer_hubs": GAIA.format(0.05, 0, "peer_hubs"),
    "bsp, gaia_hubs": GAIA.format(0, 0, "gaia_hubs"),
}
RATES = (0.03, 0.1, 0.3)
MOST_CLOCKS = 700


class Bench:
    def __init__(self):
        parser = argparse.ArgumentParser(description=__doc__,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", default="build/release")
        parser.add_argument("--data", default="data/mnist")
        parser.add_argument("--only", default="", help="cells whose names contain this")
        parser.add_argument("--clocks", type=int, default=120)
        parser.add_argument("--rate", type=float, help="of all kinds; absent: the grid decides")
        parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
        self.options = parser.parse_args()
        self.known = {}
        self.path = pathlib.Path(self.options.resume) if self.options.resume else None
        if self.path and self.path.exists():
            self.known = json.loads(self.path.read_text())

    def cell(self, network, kind, rate, target=None):
        """Accuracy, time, bytes and the scores of a run; without target of `clocks` clocks."""
        name = f"{network}; {kind}; {rate}; {target or self.options.clocks}"
        if name not in self.known:
            self.known[name] = self.measure(network, kind, rate, target, name)
            if self.path:
                self.path.write_text(json.dumps(self.known, indent=1))
            found = self.known[name]
            print(name, {key: found[key] for key in ("accuracy", "time_s", "gb")}, file=sys.stderr)
        return self.known[name]

    def measure(self, network, kind, rate, target, name):
        wan, mbps = NETWORKS[network]
        text = JOB.format(clocks=MOST_CLOCKS if target else self.options.clocks, rate=rate,
                          target=f"target_accuracy = {target}\n" if target else "",
                          sync=KINDS[kind], wan=wan,
                          data=pathlib.Path(self.options.data).resolve(),
                          scale=27.2e6 / LENET_BYTES)
        text += "".join(STEPS.format(site, mbps, mbps) for site in SITES)
        program = pathlib.Path(self.options.build).resolve() / "longhaul"
        with tempfile.TemporaryDirectory() as folder:
            job = pathlib.Path(folder) / "job.toml"
            job.write_text(text)
            summary = result(run(program, "simulate", job, "--json", "--quiet", "--out",
                                 pathlib.Path(folder) / "run", folder=folder), name,
                             codes=(0, 1), patience_s=3600)  # 1: the target is not reached
            lines = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        shares = [e["values"]["value"] for e in events if e["kind"] == "sent_share"]
        return {"accuracy": summary["final_accuracy"], "time_s": summary["time_s"],
                "clocks": summary["rounds"], "gb": summary["wan_bytes"] / 1e9,
                "share": sum(shares) / len(shares) if shares else 1,
                "scores": [(e["time_s"], e["values"]["accuracy"]) for e in events
                           if e["kind"] == "score" and "accuracy" in e["values"]]}

    def rate(self):
        if self.options.rate:
            return self.options.rate
        return max(RATES, key=lambda rate: self.cell("lan", "bsp", rate)["accuracy"])


def row(kind, cell, target):
    reached = next((f"{time:.0f}" for time, score in cell["scores"] if score >= target), "-")
    return (f"| {kind} | {100 * cell['accuracy']:.2f} % | {cell['clocks']} | {cell['time_s']:.0f} "
            f"| {cell['gb']:.1f} | {100 * cell['share']:.1f} % | {reached} |")


def main():
    bench = Bench()
    rate = bench.rate()
    for network in NETWORKS:
        rows = []
        for kind in KINDS:
            if bench.options.only not in f"{network}; {kind}":
                continue
            base = bench.cell(network, "bsp", rate)
            target = round(base["accuracy"] - 0.005, 3)
            cell = base if kind == "bsp" else bench.cell(network, kind, rate, target)
            rows.append(row(kind, cell, target))
        if rows:
            print(f"\n{network}, rate {rate}: to {target}\n")
            print("| | accuracy | clocks | s | GB | values sent | s to it |")
            print("|---|---|---|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
