#!/usr/bin/python3 -B
"""DS-Sync against BSP: scenarios A, B and C of docs/results/ds-sync.md, simulated.

  bench/ds_sync.py [--build build/release] [--only TEXT] [--rounds 500] [--json FILE]

A: 16 workers, a network that costs nothing, steps of 1 s and an exponential tail of 0.5 s.
B: 16 sites of one worker, 50 ms one way, 1 Gbit/s, 40 MB, steps that take no time.
C: 4 sites of 4 workers, uplinks of 1 Gbit/s, 30 ms, LAN of 10 Gbit/s, 40 MB, steps of 0.4 s; with
jitter 0.3 s and a tail of 0.1 s; with contention each second each site's uplink and downlink fall
to a fifth with probability 1/4; with a slow site, the port of one falls to a fifth at 60 s and
stays there. Prints seconds a step, and MB that a site sends in one: those of
--rounds rounds after the first 100.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

from common import result, run

FIRST = 100
JOB = """\
[job]
name = "ds"
seed = 1
checkpoint_every = 0
[stop]
max_rounds = {rounds}
[report]
every_rounds = 1000000
[model]
kind = "phantom"
mbytes = 40
[transfer]
chunk_run = 256
[sync]
{sync}[overlay]
{overlay}[wan]
{wan}"""
SEQUENTIAL = 'phases = "sequential"\n'
DIRECT, RING = 'kind = "direct"\n' + SEQUENTIAL, 'kind = "ring"\n' + SEQUENTIAL
HIERARCHICAL = 'kind = "hierarchical"\nbetween = "forest"\n'
BSP = 'kind = "bsp"\n'


def shuffled(schedule, size=0):
    return f'kind = "ds_sync"\nschedule = "{schedule}"\ngroup_size = {size}\n'


def slow_site(seconds=60):
    return "".join(f'[[wan.trace]]\nkind = "steps"\nwhat = "{what}"\nsite = "s2"\n'
                   f"at_s = [0, {seconds}]\nvalues = [1000, 200]\n" for what in ("up", "down"))


GRID, TOPOLOGY, RADIX = shuffled("grid"), shuffled("topology"), shuffled("radix")
SENSE = TOPOLOGY + "sense = true\n"
RANDOM, PAIRS = shuffled("random", 4), shuffled("random", 2)


def sites(count, nodes, step_ms, jitter=0.0, mbps=None):
    port = f"up_mbps = {mbps}\ndown_mbps = {mbps}\n" if mbps else ""
    tail = f'jitter = {jitter}\njitter_kind = "exponential"\n' if jitter else ""
    return "".join(f'[[site]]\nname = "s{i}"\nnodes = {nodes}\nstep_ms = {step_ms}\n{tail}{port}'
                   for i in range(count))


def contention(seconds=300):
    draw, traces = random.Random(1), ""
    for site in range(4):
        rates = [200 if draw.random() < 0.25 else 1000 for _ in range(seconds)]
        for what in ("up", "down"):
            traces += (f'[[wan.trace]]\nkind = "steps"\nwhat = "{what}"\nsite = "s{site}"\n'
                       f"at_s = {list(range(seconds))}\nvalues = {rates}\nrepeat_s = {seconds}\n")
    return traces


FREE = "delay_ms = 0\n"
FAR = "delay_ms = 50\n"
SHARED = "delay_ms = 30\nlan_mbps = 10000\n"
WARM = 'model = "fair"\nslow_start = false\n'
C = sites(4, 4, 400, mbps=1000)
UPLINK = {"bsp, ring": (BSP, RING), "bsp, hierarchical": (BSP, HIERARCHICAL),
          "topology": (TOPOLOGY, DIRECT)}
SENSED = (SENSE, DIRECT)
SCENARIOS = {  # [wan], sites, name -> [sync], [overlay]
    "A stragglers": (FREE, sites(4, 4, 1000, jitter=0.5), {
        "bsp": (BSP, DIRECT), "grid 4x4": (GRID, DIRECT), "topology": (TOPOLOGY, DIRECT),
        "radix 2^4": (RADIX, DIRECT), "random 16/4": (RANDOM, DIRECT),
        "random 16/2": (PAIRS, DIRECT)}),
    "B delay": (FAR, sites(16, 1, 0.000001, mbps=1000), {
        "bsp, ring": (BSP, RING), "bsp, direct": (BSP, DIRECT), "grid, ring": (GRID, RING),
        "grid, direct": (GRID, DIRECT), "random 16/2": (PAIRS, DIRECT)}),
    "C uplink": (SHARED, C, {**UPLINK, "grid (rows = sites)": (GRID, DIRECT)}),
    "C + jitter": (SHARED, sites(4, 4, 300, jitter=1 / 3, mbps=1000), UPLINK),
    "C, fair": (WARM + SHARED, C, {**UPLINK, "grid (rows = sites)": (GRID, DIRECT)}),
    "C + contention": (WARM + SHARED + contention(), C, {**UPLINK, "topology, sense": SENSED}),
    "C + a slow site": (WARM + SHARED + slow_site(), C, {**UPLINK, "topology, sense": SENSED}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="scenarios whose name holds this")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--json", help="file for the figures")
    args = parser.parse_args()
    longhaul = pathlib.Path(args.build).resolve() / "longhaul"
    figures, failed = {}, 0
    with tempfile.TemporaryDirectory(prefix="longhaul-ds-sync-") as folder:

        def run_of(rounds, wan, where, sync, overlay, what):
            text = JOB.format(rounds=rounds, sync=sync, overlay=overlay, wan=wan) + where
            (pathlib.Path(folder) / "job.toml").write_text(text)
            return result(run(longhaul, "simulate", "job.toml", "--out", "run", "--force",
                              "--quiet", "--json", folder=folder), what)

        for scenario, (wan, where, kinds) in SCENARIOS.items():
            if args.only not in scenario:
                continue
            print(f"\n| {scenario} | s a step | MB a site and step |\n|---|---|---|")
            for name, (sync, overlay) in kinds.items():
                try:
                    few, all_ = (run_of(n, wan, where, sync, overlay, f"{scenario}, {name}")
                                 for n in (FIRST, FIRST + args.rounds))
                except RuntimeError as error:
                    print(f"| {name} | failed |  |\n{error}", file=sys.stderr, flush=True)
                    failed += 1
                    continue
                step = (all_["time_s"] - few["time_s"]) / args.rounds
                megabytes = (all_["wan_bytes"] - few["wan_bytes"]) / args.rounds / 1e6
                megabytes /= where.count("[[site]]")
                figures[f"{scenario}, {name}"] = [step, megabytes]
                print(f"| {name} | {step:.3f} | {megabytes:.1f} |", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
