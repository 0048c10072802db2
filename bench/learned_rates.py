#!/usr/bin/python3 -B
"""How near a forest that learns its rates comes to the physical bound, in the simulator or, with
--lab, over real sockets in the emulated WAN (as root).

  bench/learned_rates.py [--build build/release] [--laps 1000] [--only TEXT] [--lab] [--json FILE]

dynamic: rates are redrawn every 180 s; every round's time over the bound of the rates as they are
when it begins, those that a redraw falls into apart. The others stay as they are and are learned
from nothing: the first round from which on none takes more than 1.10 of the bound (over sockets
1.20, and these alone, 25 MB and 8 rounds). One of them has two nodes at each site, not over
sockets. Prints a table each; ends with 1 if a goal is missed.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from common import result, run
from overlays import JOB, LAB_GOAL, NETWORKS

REDRAWN_S = 180
GOAL = 1.25  # of dynamic, in the median and but for what follows a redraw
NEAR = 1.10
TWO_NODES = "unequal-8, two nodes"  # at each site, 10 Gbit/s between them; not over sockets
STILL = ("equal-4", "unequal-8", "gaia-11", TWO_NODES)
LAPS_STILL, LAPS_LAB = 40, 8
WAYS = {
    "learned": 'kind = "forest"\nrates = "learned"\n',
    "configured": 'kind = "forest"\n',
    "direct": 'kind = "direct"\n',
}


class Bench:
    def __init__(self, build, folder, lab):
        self.longhaul = pathlib.Path(build).resolve() / "longhaul"
        self.lab = lab
        self.folder = pathlib.Path(folder)

    def job(self, network, way):
        warm = "" if self.lab else "slow_start = false\n"
        sites = NETWORKS[network.split(",")[0]][0]
        if network == TWO_NODES:
            warm += "lan_mbps = 10000\n"
            sites = sites.replace("[[site]]\n", "[[site]]\nnodes = 2\n")
        text = JOB + warm + sites + "[overlay]\n" + WAYS[way]
        (self.folder / "job.toml").write_text(text)

    def ask(self, what, *words):
        return result(run(self.longhaul, *words, "--json", folder=self.folder), what)

    def laps(self, network, way, mbytes, count):
        """Begin and time of every lap, without the warm-up; and the warm-up's time."""
        self.job(network, way)
        found = self.ask(f"{network}, {way}", "perf", "job.toml", "--mbytes", mbytes, "--repeat",
                         count, *(["--lab"] if self.lab else []))
        if found.get("lab", {}).get("router_limited"):
            print(f"{network}: limited by the router", file=sys.stderr)
        return list(zip(found["starts_s"], found["times_s"])), found["warm_up_s"]

    def bound(self, network, mbytes, second):
        self.job(network, "configured")
        return self.ask("bound", "bound", "job.toml", "--mbytes", mbytes, "--at",
                        second)["bandwidth_s"]


def intervals(bench, way, laps, mbytes):
    """For each stretch of constant rates: its bound, and the ratios of its rounds in order. A round
    that a redraw falls into goes with the stretch that it ends in, and is its first."""
    found = {}
    for begin, time in bench.laps("dynamic", way, mbytes, laps)[0]:
        number = int((begin + time) // REDRAWN_S)
        if number not in found:
            found[number] = (bench.bound("dynamic", mbytes, number * REDRAWN_S), [])
        bound, ratios = found[number]
        ratios.append(time / bound)
    return found


def row_of(way, mbytes, found):
    """All but the first interval, in which nothing was known, and the rounds of a redraw."""
    later = [ratios for number, (_, ratios) in sorted(found.items()) if number > 0]
    steady = sorted(r for ratios in later for r in ratios[1:])
    late = [next((i for i, r in enumerate(ratios) if r <= GOAL), len(ratios)) for ratios in later]
    return {"way": way, "mbytes": mbytes, "intervals": len(later), "rounds": len(steady),
            "median": statistics.median(steady), "p95": steady[int(0.95 * len(steady))],
            "mean": statistics.mean(steady), "first": [ratios[0] for ratios in later],
            "until": late, "bounds": [b for _, (b, _) in sorted(found.items())]}


def middle(numbers):
    return f"{statistics.median(numbers):.3g}"


def dynamic(bench, args, rows):
    print("| dynamic | MB | redraws | rounds | median | 95th | mean | redraw's round | rounds "
          f"until {GOAL} |\n" + "|---" * 9 + "|")
    for way in WAYS:
        for mbytes, laps in ((25, args.laps), (244, args.laps // 6)):
            if args.only not in f"dynamic {way}":
                continue
            row = row_of(way, mbytes, intervals(bench, way, laps, mbytes))
            rows.append(row)
            print(f"| {way} | {mbytes:g} | {row['intervals']} | {row['rounds']} | "
                  f"{row['median']:.3f} | {row['p95']:.3f} | {row['mean']:.3f} | "
                  f"{middle(row['first'])} | {middle(row['until'])} |", flush=True)
            if way == "learned" and row["median"] > GOAL:
                yield f"dynamic, {mbytes:g} MB: {row['median']:.3f}, goal {GOAL}"


def still(bench, args, rows):
    near = LAB_GOAL if bench.lab else NEAR
    print(f"\n| from nothing | MB | round 0 | rounds until {near} | then, median | worst |\n"
          + "|---" * 6 + "|")
    for network in STILL:
        if args.only not in network or (bench.lab and network == TWO_NODES):
            continue
        count = LAPS_LAB if bench.lab else LAPS_STILL
        for mbytes in (25,) if bench.lab else (25, 244):
            laps, warm = bench.laps(network, "learned", mbytes, count)
            bound = bench.bound(network, mbytes, 0)
            ratios = [warm / bound] + [time / bound for _, time in laps]
            beyond = [i for i, r in enumerate(ratios) if r > near]
            until = beyond[-1] + 1 if beyond else 0
            then = ratios[until:] or [float("nan")]
            row = {"network": network, "mbytes": mbytes, "ratios": ratios, "until": until}
            rows.append(row)
            print(f"| {network} | {mbytes:g} | {ratios[0]:.3f} | {until} | "
                  f"{statistics.median(then):.3f} | {max(then):.3f} |", flush=True)
            if until >= len(ratios):
                yield f"{network}, {mbytes:g} MB: not within {near} after {count} rounds"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--laps", type=int, default=1000, help="of dynamic, at 25 MB")
    parser.add_argument("--only", default="", help="networks, or ways on dynamic, that hold this")
    parser.add_argument("--lab", action="store_true", help="over real sockets, as root")
    parser.add_argument("--json", help="file for all figures")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="longhaul-learned-") as folder:
        bench = Bench(args.build, folder, args.lab)
        missed = [] if args.lab else [*dynamic(bench, args, rows)]
        missed += still(bench, args, rows)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=2) + "\n")
    print(f"\n{len(missed)} goals missed" + "".join(f"\n- {line}" for line in missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
