#!/usr/bin/python3 -B
"""Bits per byte and bytes sent of bsp, diloco and sparse_loco on text: docs/results/text.md.

  scripts/fetch-data sotu
  bench/text.py [--build build/release] [--runs runs/bench-text] [--seeds 1,2] [--only TEXT]

examples/sotu-4-sites.toml, simulated; every strategy takes 300 steps at each site. A strategy's
rates are those of its grid with the fewest bits per byte at seed 100; then come the seeds. Runs
that are done are kept in RUNS, one that was stopped is continued: the same command goes on.
"""
import argparse
import itertools
import json
import pathlib
import statistics

from common import result, run

TUNING_SEED = 100
RATES = ("0.001", "0.003", "0.01")
GRIDS = {  # fixed before the first run
    "diloco": {"optimizer.rate": RATES, "outer.momentum": ("0.5", "0.9")},
    "sparse_loco": {"optimizer.rate": RATES, "codec.feedback_decay": ("0.95", "1")},
    "bsp": {"optimizer.rate": RATES},
}
JOB = pathlib.Path(__file__).resolve().parents[1] / "examples/sotu-4-sites.toml"


def summary(args, sync, seed, chosen):
    name = "-".join([sync, f"seed{seed}", *(f"{k.split('.')[1]}{v}" for k, v in chosen.items())])
    folder = args.runs / name
    done = folder / "summary.json"
    if done.exists():
        found = json.loads(done.read_text())
        if found["stop_reason"] in ("target", "max_rounds"):
            return found
    sets = [f"sync.kind={sync}", f"job.seed={seed}", *(f"{k}={v}" for k, v in chosen.items())]
    words = [w for s in sets for w in ("--set", s)]
    again = ["--resume"] if folder.exists() else []
    return result(run(args.build / "longhaul", "simulate", JOB, "--json", "--quiet", "--out",
                      folder, *again, *words, folder=JOB.parents[1]), name, patience_s=3600)


def best(args, sync):
    grid = GRIDS[sync]
    rows = []
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values))
        bits = summary(args, sync, TUNING_SEED, chosen)["bits_per_byte"]
        print(f"  {sync} {chosen}: {bits:.4f}", flush=True)
        rows.append((bits, values))
    return dict(zip(grid, min(rows)[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--runs", type=pathlib.Path, default=pathlib.Path("runs/bench-text"))
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.build, args.runs = args.build.resolve(), args.runs.resolve()
    args.runs.mkdir(parents=True, exist_ok=True)
    rows, measured = [], {}
    for sync in (s for s in GRIDS if args.only in s):
        chosen = best(args, sync)
        runs = [summary(args, sync, seed, chosen) for seed in args.seeds.split(",")]
        bits = [r["bits_per_byte"] for r in runs]
        measured[sync] = (statistics.mean(bits), runs[0]["wan_bytes"])
        settings = ", ".join(f"`{k} = {v}`" for k, v in chosen.items())
        rows.append(f"| `{sync}` | {settings} | {statistics.mean(bits):.4f} "
                    f"({min(bits):.4f} .. {max(bits):.4f}) | {runs[0]['wan_bytes'] / 1e6:.2f} | "
                    f"{runs[0]['time_s']:.0f} |")
    print("\n| strategy | rates | bits per byte | WAN MB | s |\n|---|---|---|---|---|")
    print("\n".join(rows))
    if {"diloco", "sparse_loco"} <= measured.keys():
        (dense, dense_bytes), (sparse, sparse_bytes) = measured["diloco"], measured["sparse_loco"]
        print(f"\nsparse_loco: {100 * (sparse / dense - 1):+.2f} % of diloco's bits per byte, "
              f"{dense_bytes / sparse_bytes:.1f} times fewer bytes")


if __name__ == "__main__":
    main()
