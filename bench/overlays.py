#!/usr/bin/python3 -B
"""How near each overlay comes to the bandwidth bound: one all-reduce of 25 MB, 244 MB and 100 kB on
seven networks, in the simulator, or with --lab over real sockets in the emulated WAN (as root).

  bench/overlays.py [--build build/release] [--only TEXT] [--mbytes 25] [--lab] [--json FILE]

Prints time / bound, or of the shortest vector seconds; connections are warm (slow_start = false in
the simulator, a warm-up over sockets). Of a network that changes the bound is that of its highest
rates. Ends with 1 if forest misses a goal, or if a run failed.
"""
import argparse
import json
import pathlib
import sys
import tempfile

from common import EQUAL, UNEQUAL, gaia, result, run, sites

JOB = """\
[job]
name = "overlays"
[model]
kind = "phantom"
[data]
kind = "none"
[sync]
kind = "bsp"
[wan]
model = "fair"
"""
# What follows [wan], and how near forest is to come to the bound from 25 MB on.
NETWORKS = {
    "equal-4": ("delay_ms = 10\n" + sites(EQUAL), 1.05),
    "unequal-8": ("delay_ms = 15\n" + sites(UNEQUAL), 1.10),
    "gaia-11": ('preset = "gaia-11"\nrate_scale = 0.1\n' + gaia(), 1.10),
    "dtfm-10": ('preset = "dtfm-10"\n', 1.10),
    "aws-11-single": ('preset = "aws-11-single"\n', 1.10),
    "straggler": ('preset = "straggler"\n', 1.10),
    "dynamic": ('preset = "dynamic"\n', 1.25),
}
LAB_NETWORKS = ("equal-4", "unequal-8", "gaia-11")  # the router carries no more
LAB_GOAL = 1.20
SIZES = (25, 244, 0.1)
LONG = 25  # MB, from which on goals are shares of the bound
BEHIND = 1.02  # forest may be, of the best of the others
OVERLAYS = {
    "direct": 'kind = "direct"\n',
    "hub": 'kind = "hub"\n',
    "rack": 'kind = "rack"\n',
    "binary": 'kind = "binary"\n',
    "ring": 'kind = "ring"\n',
    "ring, ordered": 'kind = "ring"\norder = "bandwidth"\n',
    "halving_doubling": 'kind = "halving_doubling"\n',
    "tsengine": 'kind = "tsengine"\n',
    "hierarchical": 'kind = "hierarchical"\n',
    "forest": 'kind = "forest"\n',
}


def time_of(args, folder, network, overlay, mbytes):
    """Its ratio and bound. What learns or follows a trace is timed over several laps."""
    warm = "" if args.lab else "slow_start = false\n"
    (folder / "job.toml").write_text(JOB + warm + NETWORKS[network][0] + "[overlay]\n" +
                                     OVERLAYS[overlay])
    laps = 3 if args.lab or overlay == "tsengine" or network == "dynamic" else 1
    longhaul = pathlib.Path(args.build).resolve() / "longhaul"
    words = [longhaul, "perf", "job.toml", "--mbytes", mbytes, "--repeat", laps, "--json",
             *(["--lab"] if args.lab else [])]
    found = result(run(*words, folder=folder), f"{network}, {overlay}, {mbytes} MB")
    limited = found.get("router_limited") or found.get("lab", {}).get("router_limited")
    return {"network": network, "overlay": overlay, "mbytes": mbytes, "time_s": found["time_s"],
            "bound_s": found["bandwidth_s"], "ratio": found["time_s"] / found["bandwidth_s"],
            "void": bool(limited)}


def print_table(rows, text):
    overlays = [o for o in OVERLAYS if any(o in cells for cells in rows.values())]
    print("\n| network | MB | bound, s | " + " | ".join(overlays) + " |")
    print("|---" * (3 + len(overlays)) + "|")
    for (network, mbytes), cells in rows.items():
        shown = ["-" if o not in cells else "failed" if not cells[o] else
                 text(cells[o]) + (" (void)" if cells[o]["void"] else "") for o in overlays]
        bound = next((c["bound_s"] for c in cells.values() if c), float("nan"))
        print(f"| {network} | {mbytes:g} | {bound:.4g} | " + " | ".join(shown) + " |")


def print_tables(rows):
    """Of a short vector delays decide, which the bound leaves out: seconds say more."""
    for heading, short, text in (("Time / bound", False, lambda c: f"{c['ratio']:.3f}"),
                                 ("Seconds", True, lambda c: f"{c['time_s']:.3f}")):
        some = {key: cells for key, cells in rows.items() if (key[1] < LONG) == short}
        if some:
            print(f"\n{heading}")
            print_table(some, text)


def misses(rows, lab):
    """What forest was to reach and did not."""
    for (network, mbytes), cells in rows.items():
        forest = cells.get("forest")
        others = {o: c["ratio"] for o, c in cells.items()
                  if o != "forest" and c and not c["void"]}
        if not forest or forest["void"]:
            continue
        goal = LAB_GOAL if lab else NETWORKS[network][1]
        if mbytes >= LONG and forest["ratio"] > goal:
            yield f"{network}, {mbytes:g} MB: forest {forest['ratio']:.3f}, goal {goal}"
        best = min(others, key=others.get, default=None)
        if best and forest["ratio"] > BEHIND * others[best]:
            yield (f"{network}, {mbytes:g} MB: forest {forest['ratio']:.3f}, {best} "
                   f"{others[best]:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", default="", help="cells whose network or overlay holds this")
    parser.add_argument("--mbytes", type=float, help="this size only (over sockets: 25)")
    parser.add_argument("--lab", action="store_true", help="over real sockets, as root")
    parser.add_argument("--json", help="file for the cells")
    args = parser.parse_args()
    sizes = [args.mbytes] if args.mbytes else [25] if args.lab else SIZES
    cells, rows = [], {}
    with tempfile.TemporaryDirectory(prefix="longhaul-overlays-") as folder:
        for network in LAB_NETWORKS if args.lab else NETWORKS:
            for mbytes in sizes:
                for overlay in OVERLAYS:
                    if args.only not in network and args.only not in overlay:
                        continue
                    row = rows.setdefault((network, mbytes), {})
                    row[overlay] = None
                    try:
                        row[overlay] = time_of(args, pathlib.Path(folder), network, overlay, mbytes)
                        cells.append(row[overlay])
                        print(f"{network}, {mbytes:g} MB, {overlay}: {row[overlay]['ratio']:.3f}",
                              file=sys.stderr)
                    except RuntimeError as error:
                        print(error, file=sys.stderr)
    print_tables(rows)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(cells, indent=2) + "\n")
    missed = list(misses(rows, args.lab))
    print(f"\n{len(missed)} goals missed" + "".join(f"\n- {line}" for line in missed))
    failed = sum(cell is None for row in rows.values() for cell in row.values())
    sys.exit(1 if missed or failed else 0)


if __name__ == "__main__":
    main()
