#!/usr/bin/python3 -B
"""TSEngine against hub, rack and binary, and forest beside it: scenarios ts-1 to ts-6 of
docs/results/tsengine.md, simulated. 44.7 MB, nine workers and a server, 2 s a step with jitter 0.1,
delay 20 ms, 12 rounds of bsp. What is drawn is drawn anew for each seed.

  bench/tsengine.py [--build build/release] [--only TEXT] [--seeds 3] [--json FILE]

Prints seconds a round: the median over the seeds and, in brackets, the range if above 5 %.
"""
import argparse
import itertools
import json
import math
import pathlib
import random
import statistics
import sys
import tempfile

from common import result, run

JOB = """\
[job]
name = "ts"
seed = {seed}
[stop]
max_rounds = {rounds}
[model]
kind = "phantom"
mbytes = 44.7
[sync]
kind = "bsp"
[overlay]
{overlay}[roles]
server = "server"
[wan]
model = "fair"
delay_ms = 20
"""
ROUNDS = 12
SITES = [*(f"w{i}" for i in range(9)), "server"]
LOW, HIGH = 10, 155  # Mbit/s
SEQUENTIAL = 'phases = "sequential"\n'
OVERLAYS = {
    "hub": 'kind = "hub"\n' + SEQUENTIAL,
    "rack": 'kind = "rack"\n' + SEQUENTIAL,
    "binary": 'kind = "binary"\n' + SEQUENTIAL,
    "tsengine, 1 bucket": 'kind = "tsengine"\nbuckets = 1\n',
    "... `greed = 0`": 'kind = "tsengine"\nbuckets = 1\ngreed = 0\n',
    "tsengine, 8 buckets": 'kind = "tsengine"\n',
    "hub, streamed": 'kind = "hub"\n',
    "rack, streamed": 'kind = "rack"\n',
    "binary, streamed": 'kind = "binary"\n',
    "forest": 'kind = "forest"\n',
}


def log_uniform(draw):
    return round(math.exp(draw.uniform(math.log(LOW), math.log(HIGH))), 2)


def ports(rate_of):
    return "".join(f'[[site]]\nname = "{name}"\nup_mbps = {rate}\ndown_mbps = {rate}\n' +
                   ('roles = ["server"]\n' if name == "server" else
                    "step_ms = 2000\njitter = 0.1\n")
                   for name in SITES for rate in [rate_of(name)])


def pairs(rate_of):
    return "".join(f'[[wan.link]]\nfrom = "{a}"\nto = "{b}"\nmbps = {rate_of(a, b)}\n'
                   for a, b in itertools.permutations(SITES, 2))


def region(name):
    return SITES.index(name) % 3


REDRAWN = "".join(f'[[wan.trace]]\nwhat = "{what}"\nkind = "redraw"\nlow = 20\nhigh = {HIGH}\n'
                  "every_s = 180\n" for what in ("up", "down"))
SCENARIOS = {
    "ts-1": lambda draw: ports(lambda _: HIGH),
    "ts-2": lambda draw: ports(lambda name: 50 if name == "server" else HIGH),
    "ts-3": lambda draw: ports(lambda _: log_uniform(draw)),
    "ts-4": lambda draw: pairs(lambda a, b: log_uniform(draw)) + ports(lambda _: HIGH),
    "ts-5": lambda draw: pairs(lambda a, b: HIGH if region(a) == region(b) else 20) +
                         ports(lambda _: HIGH),
    "ts-6": lambda draw: REDRAWN + ports(lambda _: HIGH),
}


def round_s(args, folder, scenario, overlay, seed):
    draw = random.Random(f"{scenario} {seed}")
    job = JOB.format(seed=seed, rounds=ROUNDS, overlay=OVERLAYS[overlay])
    (folder / "job.toml").write_text(job + SCENARIOS[scenario](draw))
    longhaul = pathlib.Path(args.build).resolve() / "longhaul"
    found = result(run(longhaul, "simulate", "job.toml", "--out", "run", "--force", "--quiet",
                       "--json", folder=folder), f"{scenario}, {overlay}, seed {seed}")
    return found["time_s"] / ROUNDS


def cell(times):
    if not times:
        return "failed"
    median = f"{statistics.median(times):.1f}"
    spread = max(times) - min(times)
    return median if spread < 0.05 * max(times) else f"{median} ({min(times):.0f}-{max(times):.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", help="file for the times")
    args = parser.parse_args()
    times, failed = {}, 0
    with tempfile.TemporaryDirectory(prefix="longhaul-tsengine-") as folder:
        for scenario, overlay in itertools.product(SCENARIOS, OVERLAYS):
            if args.only not in scenario:
                continue
            for seed in range(1, args.seeds + 1):
                try:
                    time = round_s(args, pathlib.Path(folder), scenario, overlay, seed)
                    times.setdefault(scenario, {}).setdefault(overlay, []).append(time)
                except RuntimeError as error:
                    failed += 1
                    print(error, file=sys.stderr)
            print(f"{scenario}, {overlay}: {times.get(scenario, {}).get(overlay)}", file=sys.stderr)
    print("| overlay | " + " | ".join(times) + " |\n" + "|---" * (1 + len(times)) + "|")
    for overlay in OVERLAYS:
        cells = [times[scenario].get(overlay) for scenario in times]
        print(f"| {overlay} | " + " | ".join(map(cell, cells)) + " |")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(times, indent=2) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
